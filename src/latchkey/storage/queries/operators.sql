-- name: grant_operator
-- let an account see what concerns the whole deployment
insert into operators (account_id, granted_at) values ($1, $2) on conflict do nothing;

-- name: revoke_operator
-- take that back
delete from operators where account_id = $1;

-- name: is_operator
-- whether an account may see what concerns the whole deployment
select exists (select from operators where account_id = $1);

-- name: list_operators
-- the addresses of all operators
select a.email from operators o join accounts a on a.id = o.account_id order by a.email;
