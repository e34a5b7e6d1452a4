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
insert into key_uses as u (key_id, project_id, used_at)
select n.key_id, n.project_id, n.used_at
from unnest($1::text[], $2::text[], $3::bigint[]) as n (key_id, project_id, used_at)
cross join lateral (select from api_keys k where k.id = n.key_id limit 1) as known
order by n.key_id
on conflict (key_id) do update set used_at = excluded.used_at where u.used_at < excluded.used_at;

-- name: load_key_uses
-- when these keys were last used
select u.key_id, u.used_at from key_uses u where u.key_id = any($1::text[]);

-- name: list_requests
-- requests of a project, newest first: those that fit among the first rows before an id
select l.*
from (
    select r.id, r.key_id, r.at, r.method, r.route, r.status, r.took_us, r.bytes, r.request_id, r.address, r.agent,
        r.left_out
    from request_log r
    where r.project_id = $1 and r.id < $2
    order by r.id desc
    limit $3
) as l
where ($4::integer is null or l.status / 100 = $4) and ($5::text is null or l.route = $5)
order by l.id desc
limit $6;

-- name: list_requests_of_key
-- the same for one key
select l.*
from (
    select r.id, r.key_id, r.at, r.method, r.route, r.status, r.took_us, r.bytes, r.request_id, r.address, r.agent,
        r.left_out
    from request_log r
    where r.key_id = $7 and r.id < $2
    order by r.id desc
    limit $3
) as l
where ($4::integer is null or l.status / 100 = $4) and ($5::text is null or l.route = $5)
    and exists (select from api_keys k where k.id = $7 and k.project_id = $1)
order by l.id desc
limit $6;

-- name: logged_routes
-- routes among a project's newest requests
select distinct l.route
from (select r.route from request_log r where r.project_id = $1 order by r.id desc limit $2) as l
where l.route <> ''
order by l.route;

-- name: prune_request_log
-- a batch of requests from before a moment
with old as (
    select r.ctid as place from request_log r where r.at < $1 order by r.at limit $2
),
gone as (
    delete from request_log r where r.ctid = any(array(select place from old)) returning 1
)
select count(*) from gone;

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
with last as (
    select r.id from request_log r where r.key_id = $1 order by r.id desc offset $2 limit 1
),
old as (
    select r.ctid as place
    from last l
    cross join lateral (
        select o.ctid from request_log o where o.key_id = $1 and o.id <= l.id order by o.id limit $3
    ) as r
),
gone as (
    delete from request_log r where r.ctid = any(array(select place from old)) returning 1
)
select count(*) from gone;

-- name: prune_key_uses
-- uses of keys that are gone
delete from key_uses u where not exists (select from api_keys k where k.id = u.key_id);
