-- name: export_snapshot
-- what an export must know of the moment it is about: the transactions it sees, the database, the feed, the customers
select
    pg_snapshot_xmin(pg_current_snapshot())::text::bigint as oldest_xid,
    pg_snapshot_xmax(pg_current_snapshot())::text::bigint as next_xid,
    -- After a restore positions skip to another 10^9.
    export_epoch() || '-' || coalesce((select position from feeds where project_id = $1), 0) / 1000000000 as epoch,
    coalesce((select position from feeds where project_id = $1), 0) as position,
    coalesce((select id from customers where project_id = $1 order by id desc limit 1), 0) as last_customer,
    (select catalog_version from projects where id = $1) as catalog_version;

-- name: export_customers
-- the next customers by key, up to one; since a transaction id, only rows written since then: xmin is its last 32 bits
select id, state, {last_seen}
from customers c
where project_id = $1 and id > $2 and id <= $3
    and ($4::bigint is null or (xmin::text::bigint - $4 % 4294967296 + 4294967296) % 4294967296 < 2147483648)
order by id
limit $5;

-- name: export_gone_customers
-- customers that were erased or merged by a transaction since a transaction id
select customer_id from gone_customers
where project_id = $1 and xid >= $2 and customer_id > $3
order by customer_id
limit $4;

-- name: export_rewritten_events
-- events up to a position that were rewritten by a transaction since a transaction id
select e.position, e.customer_id, e.committed_at, e.body
from rewritten_events r
join events e on e.project_id = r.project_id and e.position = r.position
where r.project_id = $1 and r.xid >= $2 and r.position > $3 and r.position <= $4
order by r.position
limit $5;

-- name: export_tokens
-- what these purchases can be read again with, the latest first
select store, store_id, handle from store_handles
where project_id = $1 and store_id = any($2::text[])
order by store, store_id, first_seen_at desc, last_told_at desc;

-- name: save_export
-- an export that runs by itself, new or changed; a run under way loses its lease, so that it records nothing any more
insert into exports as e (
    project_id, id, name, what, format, incremental, with_tokens, destination, endpoint, region, credentials, access_key,
    every, enabled, created_at, updated_at, next_at, cursor
) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $15, $16, $17)
on conflict (project_id, id) do update set
    name = $3, what = $4, format = $5, incremental = $6, with_tokens = $7, destination = $8, endpoint = $9, region = $10,
    credentials = $11, access_key = $12, every = $13, enabled = $14, updated_at = $15, next_at = $16, cursor = $17,
    lease_until = 0, token = e.token + 1
returning *;

-- name: list_exports
-- the exports of a project that run by themselves, oldest first; or the one with an id
select * from exports
where project_id = $1 and {page_by_age of exports};

-- name: delete_export
-- delete an export with its runs; what it wrote stays where it is
delete from exports where project_id = $1 and id = $2 returning id;

-- name: run_export_now
-- let an export run as soon as a process has time; with a new beginning it exports everything
update exports set next_at = $3, cursor = case when $4::boolean then null else cursor end
where project_id = $1 and id = $2
returning *;

-- name: claim_export
-- claim the export that has waited longest; no other process gets it until the lease runs out
update exports set lease_until = $2, token = token + 1
where ctid = any(array(
    select e.ctid from exports e
    where e.next_at <= $1 and e.lease_until <= $1
    order by e.next_at
    limit 1
    for update skip locked
))
returning *;

-- name: renew_export
-- keep an export that is running, unless another process has it
update exports set lease_until = $4 where project_id = $1 and id = $2 and token = $3 returning id;

-- name: finish_export
-- record the end of a run, unless another process has the export; what was asked for during the run comes next
update exports set
    next_at = case when next_at is not distinct from $7 then $4 else next_at end,
    cursor = case when cursor is not distinct from $8 then $6 else cursor end,
    failures = $5, lease_until = 0
where project_id = $1 and id = $2 and token = $3
returning id;

-- name: begin_export_run
-- begin a run; one that is still called running was interrupted
with interrupted as (
    update export_runs set state = 'failed', finished_at = $3, error = $4
    where project_id = $1 and export_id = $2 and state = 'running'
), old as (
    delete from export_runs
    where project_id = $1 and export_id = $2
        and id <= (select id from export_runs where project_id = $1 and export_id = $2 order by id desc limit 1 offset $5)
)
insert into export_runs (project_id, export_id, started_at) values ($1, $2, $3) returning id;

-- name: finish_export_run
-- record what became of a run
update export_runs
set finished_at = $4, state = $5, kind = $6, folder = $7, rows = $8, bytes = $9, files = $10, error = $11
where project_id = $1 and export_id = $2 and id = $3;

-- name: list_export_runs
-- the runs of an export, newest first; of all exports of a project, the newest of each
select r.*
from exports e
cross join lateral (
    select * from export_runs r
    where r.project_id = e.project_id and r.export_id = e.id and ($3::bigint is null or r.id < $3)
    order by r.id desc
    limit $4
) as r
where e.project_id = $1 and ($2::text is null or e.id = $2)
order by r.id desc;

-- name: export_size
-- whether a project has more customers than a limit, and how many events it has
select
    (select count(*) from (select from customers where project_id = $1 limit $2) as counted) as customers,
    -- After a restore positions go on a thousand million higher.
    coalesce((select position % 1000000000 from feeds where project_id = $1), 0) as events;
