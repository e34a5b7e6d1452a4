-- name: begin_second_factor
-- a new secret for an account, not yet asked for; an earlier one that was never confirmed is replaced
insert into second_factors (account_id, secret_sealed, created_at) values ($1, $2, $3)
on conflict (account_id) do update set secret_sealed = excluded.secret_sealed, created_at = excluded.created_at
where second_factors.confirmed_at is null
returning account_id;

-- name: load_second_factor
-- the second factor of an account, confirmed or not, and how many recovery codes are left
select secret_sealed, created_at, confirmed_at, cardinality(recovery_codes) from second_factors where account_id = $1;

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
