-- part: caller_columns
asked.revision, asked.id, asked.project_id, asked.app_id, asked.store, asked.kind, asked.scopes,
    asked.expires_at, asked.allowed_networks, asked.shape

-- name: admit_requests
-- the owners of the keys of one batch, and how many of their requests the rate limit admits
select
    asked.hash, taken.granted, taken.retry_after_us, taken.used, taken.open_us, asked.rate_limit,
    {caller_columns}
from (
    -- Each key's row is locked in the same order in all processes, so that there is no deadlock.
    select k.*, p.store, a.amount
    from unnest($1::bytea[], $2::integer[]) as a (hash, amount)
    join api_keys k on k.hash = a.hash and k.revoked_at is null
    left join apps p on p.project_id = k.project_id and p.id = k.app_id
    order by k.id
) as asked
{counted};

-- name: admit_with_leases
-- the same where leases are concerned, which costs more. $2 is how many requests to count; 0 if a lease covers them. $3 to
-- $6 are leases to take and to hand back, see take_requests.
select
    asked.hash, taken.granted, taken.retry_after_us, taken.used, taken.open_us, asked.rate_limit,
    {caller_columns},
    taken.leased, taken.leased_at, taken.leased_us
from (
    select k.*, p.store, a.wanted, a.wanted as amount, a.ahead, a.back, a.settled, a.back_at
    from unnest($1::bytea[], $2::integer[], $3::integer[], $4::integer[], $5::integer[], $6::bigint[])
        as a (hash, wanted, ahead, back, settled, back_at)
    join api_keys k on k.hash = a.hash and k.revoked_at is null
    left join apps p on p.project_id = k.project_id and p.id = k.app_id
    order by k.id
) as asked
{counted_with_leases};

-- name: key_as_known
-- whether a key is still what the process knows: its revision ($2)
select k.revision = $2 and k.revoked_at is null from api_keys k where k.hash = $1;

-- name: rules_of_keys
-- when and from where keys work; nothing is counted
select hash, id, expires_at, allowed_networks from api_keys where hash = any($1::bytea[]) and revoked_at is null;

-- name: hand_back
-- a lease of a key that is over: what is unused ($2), its size ($3) and its run ($4)
select t.used
from api_keys k
cross join lateral take_requests(k.id, 0, k.rate_limit, null, 0, $2::integer, $3::integer, $4::bigint) as t
where k.hash = $1;

-- name: former_key_stores
-- the stores of public keys that once existed: revoked, or of an app that was deleted
select k.hash, a.store
from api_keys k
join apps a on a.project_id = k.project_id and a.id = k.app_id
where k.hash = any($1::bytea[]) and k.kind = 'public' and k.revoked_at is not null
union all
select hash, store from former_public_keys where hash = any($1::bytea[]);
