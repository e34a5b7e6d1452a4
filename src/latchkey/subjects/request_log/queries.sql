-- name: log_requests
-- requests of the last second, of several keys
insert into request_log (
    project_id, key_id, at, method, route, status, took_us, bytes, request_id, address, agent, left_out
)
select * from unnest(
    $1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::integer[], $7::integer[], $8::integer[], $9::text[],
    $10::text[], $11::text[], $12::integer[]
);

-- name: note_key_uses
-- when keys were last used; keys that are gone are left out
insert into key_uses as u (key_id, used_at)
select n.key_id, n.used_at
from unnest($1::text[], $2::bigint[]) as n (key_id, used_at)
cross join lateral (select from api_keys k where k.id = n.key_id limit 1) as known
order by n.key_id
on conflict (key_id) do update set used_at = excluded.used_at where u.used_at < excluded.used_at;

-- name: load_key_uses
-- when these keys were last used
select u.key_id, u.used_at from key_uses u where u.key_id = any($1::text[]);

-- name: logged_routes
-- routes among a project's newest requests
select distinct l.route
from (select r.route from request_log r where r.project_id = $1 order by r.id desc limit $2) as l
where l.route <> ''
order by l.route;

-- name: prune_request_log
-- a batch of requests from before a moment
delete from request_log where ctid = any(array(select ctid from request_log where at < $1 order by at limit $2));

-- name: logged_keys
-- keys with requests in the log, after a given one: a jump through the index for each
with recursive found as (
    (select r.key_id from request_log r where r.key_id > $1 order by r.key_id limit 1)
    union all
    select next.key_id
    from found f
    cross join lateral (
        select r.key_id from request_log r where r.key_id > f.key_id order by r.key_id limit 1
    ) as next
)
select key_id from found limit $2;

-- name: prune_requests_of_key
-- a batch of a key's requests beyond the newest
delete from request_log
where ctid = any(array(
    select r.ctid from request_log r
    where r.key_id = $1
        and r.id <= (select n.id from request_log n where n.key_id = $1 order by n.id desc offset $2 limit 1)
    order by r.id
    limit $3
));

-- name: prune_key_uses
-- uses of keys that are gone
delete from key_uses u where not exists (select from api_keys k where k.id = u.key_id);

-- name: prune_rate_windows
-- the last minute of keys that are gone or revoked
delete from rate_windows w where not exists (select from api_keys k where k.id = w.key_id and k.revoked_at is null);

-- name: list_requests
-- requests of a project, newest first, of one key if it is given: those that fit among the first rows before an id
select l.*
from (
    select r.* from request_log r
    where r.project_id = $1 and r.id < $2 and ($7::text is null or r.key_id = $7)
    order by r.id desc
    limit $3
) as l
where ($4::integer is null or l.status / 100 = $4) and ($5::text is null or l.route = $5)
order by l.id desc
limit $6;

-- name: begin_idempotent_request
-- a request with an Idempotency-Key, unless one is known from after $5 that is under way or has a reply. One that failed may
-- be carried out again, as long as it is the same
insert into idempotent_requests as known (id_hash, project_id, fingerprint, created_at, started_at)
values ($1, $2, $3, $4, $4)
on conflict (id_hash) do update
set fingerprint = excluded.fingerprint, started_at = excluded.started_at, status = null, reply = null,
    created_at = case when known.created_at <= $5 then excluded.created_at else known.created_at end
where known.created_at <= $5
    or known.status is not null and known.reply is null and known.fingerprint = excluded.fingerprint
returning created_at;

-- name: load_idempotent_request
-- what is known of a request with an Idempotency-Key
select fingerprint, started_at, status, reply from idempotent_requests where id_hash = $1;

-- name: finish_idempotent_request
-- the outcome of the request that began at $2; without a reply ($4) it may be carried out again
update idempotent_requests set status = $3, reply = $4 where id_hash = $1 and started_at = $2;

-- name: prune_idempotent_requests
-- forget requests from before a time, so many at once
delete from idempotent_requests
where id_hash in (select id_hash from idempotent_requests where created_at <= $1 limit $2);
