-- name: begin_second_factor
-- a new secret for an account, not yet asked for; an earlier one that was never confirmed is replaced
insert into second_factors (account_id, secret_sealed, created_at) values ($1, $2, $3)
on conflict (account_id) do update set secret_sealed = excluded.secret_sealed, created_at = excluded.created_at
where second_factors.confirmed_at is null
returning account_id;

-- name: load_second_factor
-- the second factor of an account, confirmed or not
select secret_sealed, created_at, confirmed_at from second_factors where account_id = $1;

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

-- name: forget_recovery_codes
-- the recovery codes of an account no longer work
delete from recovery_codes where account_id = $1;

-- name: add_recovery_codes
-- new recovery codes, by their hashes
insert into recovery_codes (account_id, code_hash) select $1, unnest($2::bytea[]);

-- name: use_recovery_code
-- use up a recovery code; of several concurrent attempts with one code one succeeds
delete from recovery_codes where account_id = $1 and code_hash = $2 returning account_id;

-- name: count_recovery_codes
-- how many recovery codes an account has left
select count(*) from recovery_codes where account_id = $1;

-- name: begin_half_sign_in
-- somebody gave the right password, and the code is to come
insert into half_sign_ins (token_hash, account_id, expires_at) values ($1, $2, $3);

-- name: find_half_sign_in
-- whose code is to come, if it is not too late
select account_id from half_sign_ins where token_hash = $1 and expires_at > $2;

-- name: take_half_sign_in
-- the code came; of several concurrent attempts one succeeds
delete from half_sign_ins where token_hash = $1 and expires_at > $2 returning account_id;

-- name: forget_half_sign_ins
-- those of this account, and all that are too old
delete from half_sign_ins where account_id = $1 or expires_at < $2;
