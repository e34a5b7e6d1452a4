-- name: admit_requests
-- the owners of the keys of one batch, and how many of their requests the rate limit admits
select
    asked.hash, taken.granted, taken.retry_after_us, taken.used, asked.rate_limit,
    asked.id, asked.project_id, asked.app_id, asked.store, asked.kind, asked.scopes
from (
    -- Each key's row is locked in the same order in all processes, so that there is no deadlock.
    select k.*, p.store, a.wanted
    from unnest($1::bytea[], $2::integer[]) as a (hash, wanted)
    join api_keys k on k.hash = a.hash and k.revoked_at is null
    left join apps p on p.project_id = k.project_id and p.id = k.app_id
    order by k.id
) as asked
cross join lateral (
    select t.granted, t.retry_after_us, t.used
    from take_requests(asked.id, asked.wanted, asked.rate_limit) as t
    where asked.kind = 'secret'
    union all
    -- All phones of an app share its public key: it is not counted here.
    select asked.wanted, null, null
    where asked.kind <> 'secret'
) as taken;

-- name: former_key_stores
-- the stores of public keys that once existed: revoked, or of an app that was deleted
select k.hash, a.store
from api_keys k
join apps a on a.project_id = k.project_id and a.id = k.app_id
where k.hash = any($1::bytea[]) and k.kind = 'public' and k.revoked_at is not null
union all
select hash, store from former_public_keys where hash = any($1::bytea[]);
