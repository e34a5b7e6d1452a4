-- part: account_columns
a.id, a.email, a.name, a.password_hash is not null as has_password, a.openid, a.created_at,
    a.operator_since is not null as is_operator,
    exists (select from second_factors f where f.account_id = a.id and f.confirmed_at is not null) as has_second_factor

-- name: create_account
-- a new account, unless the address is taken
insert into accounts (id, email, name, password_hash, created_at) values ($1, $2, $3, $4, $5)
on conflict do nothing
returning id, email, name, password_hash is not null as has_password, openid, created_at, false as is_operator,
    false as has_second_factor;

-- name: find_account
-- the account with this id, this address or this OpenID identity
select {account_columns} from accounts a where a.id = $1 or a.email = $2 or a.openid = $3;

-- name: lock_account
-- lock an account, or that of a token: who gets a way into it and who adds it to a project take turns
select id from accounts where id = $1 or id = (select account_id from account_tokens where token_hash = $2)
for no key update;

-- name: link_openid
-- link this identity to an account
update accounts set openid = $2 where id = $1 and (openid is null or openid = $2) returning id;

-- name: password_of
-- the account with this address and the hash of its password, if it has one
select id, password_hash from accounts where email = $1;

-- name: set_password
-- a new password for an account, if this session has not ended meanwhile; an empty hash is none
update accounts set password_hash = $2
where id = $1 and ($3 = ''::bytea or exists (select from sessions where token_hash = $3))
returning id;

-- name: choose_password
-- a password that was chosen by a link, and who was shown the link; one that it made for itself proves nothing
update accounts set password_hash = $2, password_from = case when $3 = id then password_from else $3 end where id = $1;

-- name: forget_shown_password
-- remove a password that somebody else than $2 may have chosen
update accounts set password_hash = null, password_from = null
where id = $1 and password_from <> coalesce($2, '')
returning id;

-- name: count_accounts
-- how many accounts there are
select count(*) from accounts;

-- name: put_member
-- set an account's role in a project
insert into memberships (account_id, project_id, role, created_at) values ($1, $2, $3, $4)
on conflict (account_id, project_id) do update set role = excluded.role;

-- name: remove_member
-- remove an account from a project
delete from memberships where account_id = $1 and project_id = $2 returning account_id;

-- name: lock_owners
-- the owners of a project, locked, so that two who leave at once cannot both rely on the other staying
select account_id from memberships where project_id = $1 and role = 'owner' order by account_id for update;

-- name: role_of
-- an account's role in a project
select role from memberships where account_id = $1 and project_id = $2;

-- name: projects_of_account
-- the projects of an account, and its role in each
select p.id as project_id, p.name, m.role
from memberships m join projects p on p.id = m.project_id
where m.account_id = $1
order by m.created_at, p.id;

-- name: members_of_project
-- the members of a project, in the order they joined
select {account_columns}, m.role, m.created_at as since,
    (select max(s.last_seen_at) from sessions s where s.account_id = a.id) as last_seen_at
from memberships m join accounts a on a.id = m.account_id
where m.project_id = $1
order by m.created_at, a.id;

-- name: open_session
-- a new session; after a password ($7) only if it was not removed meanwhile
insert into sessions (token_hash, account_id, created_at, last_seen_at, address, agent, through)
select $1, id, $3, $3, $4, $5, $6 from accounts where id = $2 and (password_hash is not null or not $7) for share;

-- name: find_session
-- the session of a cookie, its account, and the account's role in the requested project
select {account_columns}, s.created_at as opened_at, s.last_seen_at, s.notice, s.notice_kind, s.through, m.role
from sessions s
join accounts a on a.id = s.account_id
left join memberships m on m.account_id = a.id and m.project_id = $2
where s.token_hash = $1;

-- name: touch_session
-- update a session's last use
update sessions set last_seen_at = $2 where token_hash = $1;

-- name: set_notice
-- set the notice that the next page shows; null is none
update sessions set notice = $2, notice_kind = $3 where token_hash = $1;

-- name: end_session
-- end a session; of one account, if it is given
delete from sessions where token_hash = $1 and account_id = coalesce($2, account_id);

-- name: end_sessions_of_account
-- end all sessions of an account except the given one
delete from sessions where account_id = $1 and token_hash <> $2;

-- name: sessions_of_account
-- the sessions of an account
select encode(token_hash, 'hex') as id, created_at, last_seen_at, address, agent
from sessions where account_id = $1 order by last_seen_at desc;

-- name: forget_old_sessions
-- delete sessions that have ended
delete from sessions where created_at < $1 or last_seen_at < $2;

-- name: add_account_token
-- a token of an account for a purpose; at most $6 of them work at a time, the newest
with older as (
    delete from account_tokens
    where token_hash in (
        select token_hash from account_tokens
        where account_id = $2 and purpose = $3
        order by created_at desc, token_hash
        offset $6 - 1
    )
)
insert into account_tokens (token_hash, account_id, purpose, created_at, expires_at, shown_to)
values ($1, $2, $3, $4, $5, $7);

-- name: forget_account_tokens
-- delete the tokens of an account, of one purpose or all, and all expired ones
delete from account_tokens where account_id = $1 and purpose = coalesce($2, purpose) or expires_at < $3;

-- name: forget_shown_links
-- delete the links of other members of a project that an account was shown
delete from account_tokens t
using memberships m
where t.shown_to = $1 and t.account_id <> $1 and m.account_id = t.account_id and m.project_id = $2;

-- name: find_account_of_token
-- the account of a token that still works
select {account_columns}
from account_tokens t join accounts a on a.id = t.account_id
where t.token_hash = $1 and t.purpose = $2 and t.expires_at > $3;

-- name: take_account_token
-- use up a token; of several concurrent attempts one succeeds
delete from account_tokens where token_hash = $1 and purpose = $2 and expires_at > $3
returning account_id, shown_to;

-- name: await_turn_to_guess
-- lock a subject, so that concurrent guesses for the same device, account or address are counted one after the other
select pg_advisory_xact_lock(hashtextextended($1, 46));

-- name: count_failed_sign_ins
-- how many failures this subject had lately, and when the last one was
select count(*) as failures, max(at) as last_at from failed_sign_ins where subject = $1 and at > $2;

-- name: note_failed_sign_in
-- record one failure under each of these subjects, and delete some that no longer count: in a deployment where nobody signs
-- in with a password, nothing else would
with expired as (
    delete from failed_sign_ins
    where ctid = any(array(
        select ctid from failed_sign_ins where at < $3 order by at limit 100 for update skip locked
    ))
)
insert into failed_sign_ins (subject, at) select unnest($1::text[]), $2;

-- name: forget_failed_sign_ins
-- delete the failures of somebody who signed in
delete from failed_sign_ins where subject = any($1::text[]);

-- name: forget_one_sign_in
-- delete one failure of each subject: it was recorded before the password was checked, and the password was right
delete from failed_sign_ins
where ctid in (
    select (select ctid from failed_sign_ins where subject = asked.subject and at = $2 limit 1)
    from unnest($1::text[]) as asked (subject)
);

-- name: begin_audit_entry
-- begin an audit entry, before the change is made
insert into audit_entries (project_id, at, account_id, actor, action, subject, detail, address)
values ($1, $2, $3, $4, $5, $6, $7, $8)
returning position;

-- name: finish_audit_entry
-- finish an audit entry with its outcome; account and actor are added if they were not known at the beginning
-- One whose person was erased meanwhile names them no more.
update audit_entries
set outcome = $2, subject = case when subject = '$deleted' then subject else $3 end,
    detail = case when subject = '$deleted' and $3 <> '$deleted' then detail else $4 end,
    account_id = coalesce(account_id, $5), actor = coalesce($6, actor)
where position = $1;

-- name: newest_audit_entry
-- the position of a project's newest audit entry
select coalesce(max(position), 0) from audit_entries where project_id = $1;

-- name: forget_in_audit_entries
-- replace the ids of an erased customer in entries after a position
-- In the subject, whole or before a comma, and in the details as JSON texts ($3). The log of years is read once, however
-- many ids there are: they are in hash tables. `is true` keeps the second from becoming a join.
update audit_entries e set subject = $4, detail = '{}'
where e.project_id = $1 and e.position > $5 and (
    split_part(e.subject, ', ', 1) in (select split_part(id, ', ', 1) from unnest($2::text[]) as id)
    and exists (select from unnest($2) as id where e.subject = id or starts_with(e.subject, id || ', '))
    or exists (
        select from unnest(string_to_array(e.detail::text, '"')) as word
        where (word in (select unnest($3::text[]))) is true
    )
);

-- name: list_audit_entries
-- the audit log: what was done in a project and what its members did to their accounts, newest first, before a given
-- entry; optionally of one action, of one account or of an actor without an account. With a range of time only the former
select *
from (
    (select * from audit_entries
     where project_id = $1 and position < $2 and ($3::text is null or action = $3)
       and ($5::text is null or account_id = $5) and ($6::text is null or actor = $6)
       and ($7::bigint is null or at >= $7 and at < $8)
     order by position desc limit $4)
    union all
    (select own.* from memberships m cross join lateral (
         select * from audit_entries e
         where e.account_id = m.account_id and e.project_id is null
           and e.position < $2 and ($3::text is null or e.action = $3)
         order by e.position desc limit $4) own
     where m.project_id = $1 and ($5::text is null or m.account_id = $5) and $6::text is null and $7::bigint is null)
) found
order by position desc
limit $4;

-- name: set_operator
-- since when an account may see what concerns the whole deployment; null takes that back
update accounts set operator_since = $2 where id = $1;

-- name: list_operators
-- the addresses of all operators
select email from accounts where operator_since is not null order by email;

-- name: begin_second_factor
-- a new secret for an account, not yet asked for; an earlier one that was never confirmed is replaced
insert into second_factors (account_id, secret_sealed, created_at) values ($1, $2, $3)
on conflict (account_id) do update set secret_sealed = excluded.secret_sealed, created_at = excluded.created_at
where second_factors.confirmed_at is null
returning account_id;

-- name: load_second_factor
-- the second factor of an account, confirmed or not, and how many recovery codes are left
select secret_sealed, created_at, confirmed_at, cardinality(recovery_codes) as codes_left
from second_factors where account_id = $1;

-- name: confirm_second_factor
-- ask for codes from now on; the code of this time step counts as used
update second_factors set confirmed_at = $2, last_step = $3
where account_id = $1 and confirmed_at is null and secret_sealed = $4
returning account_id;

-- name: use_step
-- accept the code of a time step; of several concurrent attempts with one code one succeeds
update second_factors set last_step = $2
where account_id = $1 and confirmed_at is not null and last_step < $2
returning account_id;

-- name: remove_second_factor
-- no second factor any more
delete from second_factors where account_id = $1 returning confirmed_at;

-- name: set_recovery_codes
-- new recovery codes, by their hashes; earlier ones no longer work
update second_factors set recovery_codes = $2 where account_id = $1;

-- name: use_recovery_code
-- use up a recovery code; of several concurrent attempts with one code one succeeds
update second_factors set recovery_codes = array_remove(recovery_codes, $2)
where account_id = $1 and $2 = any(recovery_codes)
returning account_id;
