-- name: add_mail
-- a mail that is to be sent
insert into outgoing_mails (kind, email, created_at, due_at, expires_at, about) values ($1, $2, $3, $3, $4, $5);

-- name: claim_mail
-- the mail that has waited longest; nobody else takes it until its lease ends ($2)
update outgoing_mails set due_at = $2, attempts = attempts + 1
where id = (select id from outgoing_mails where due_at <= $1 order by due_at limit 1 for update skip locked)
returning id, kind, email, expires_at, attempts, about;

-- name: postpone_mail
-- try again later
update outgoing_mails set due_at = $2 where id = $1;

-- name: remove_mail
-- it was sent, or never will be
delete from outgoing_mails where id = $1;
