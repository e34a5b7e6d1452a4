-- name: add_mail
-- a mail that is to be sent
insert into outgoing_mails (kind, email, created_at, due_at, expires_at, about, account_id, project_id)
values ($1, $2, $3, $3, $4, $5, $6, $7);

-- name: claim_mail
-- the mail that has waited longest and is the first of its member; nobody else takes it until its lease ends ($2). Links
-- that people wait for go before messages to members, of which there may be many to a receiver that takes long to answer
update outgoing_mails set due_at = $2, attempts = attempts + 1
where id = (
    select m.id from outgoing_mails m
    where m.due_at <= $1 and not exists (
        select from outgoing_mails o
        where o.account_id = m.account_id and o.project_id = m.project_id and o.id < m.id
    )
    order by m.account_id is not null, m.due_at limit 1 for update skip locked
)
returning id, kind, email, expires_at, attempts, about, account_id, project_id;

-- name: postpone_mail
-- try again later, with those to the same member that come after it
update outgoing_mails m set due_at = $2
from outgoing_mails first
where first.id = $1 and (m.id = $1 or (m.account_id = first.account_id and m.project_id = first.project_id));

-- name: remove_mail
-- it was sent, or never will be
delete from outgoing_mails where id = $1;
