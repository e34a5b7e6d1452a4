-- name: export_snapshot
-- what an export must know of the moment it is about: the transactions it sees, the database, the feed, the customers
select
    pg_snapshot_xmin(pg_current_snapshot())::text::bigint as oldest_xid,
    pg_snapshot_xmax(pg_current_snapshot())::text::bigint as next_xid,
    (select system_identifier from pg_control_system())::text
        || '-' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) as epoch,
    coalesce((select position from feeds where project_id = $1), 0) as position,
    coalesce((select id from customers where project_id = $1 order by id desc limit 1), 0) as last_customer,
    (select catalog_version from projects where id = $1) as catalog_version;

-- name: export_customers
-- the next customers of a project, by key
select id, state, last_seen_at, last_seen_platform, last_seen_platform_version, last_seen_app_version, last_seen_country
from customers
where project_id = $1 and id > $2
order by id
limit $3;

-- name: export_stretch
-- the last key of the next customers of a project
select max(id) as ends_at from (
    select id from customers where project_id = $1 and id > $2 order by id limit $3
) as next;

-- name: export_changed_customers
-- customers of a range of keys whose row was written by a transaction since a transaction id; the row keeps the last 32
-- bits of the id of the transaction that wrote it
select id, state, last_seen_at, last_seen_platform, last_seen_platform_version, last_seen_app_version, last_seen_country
from customers
where project_id = $1 and id > $2 and id <= $3
    and (xmin::text::bigint - $4::bigint % 4294967296 + 4294967296) % 4294967296 < 2147483648
order by id
limit $5;

-- name: export_gone_customers
-- customers that were erased or merged by a transaction since a transaction id
select customer_id from gone_customers
where project_id || '' = $1 and xid >= $2 and customer_id > $3
order by customer_id
limit $4;

-- name: export_events
-- the next events of a project's feed, up to a position
select position, customer_id, committed_at, body from events
where project_id = $1 and position > $2 and position <= $3
order by position
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
where project_id || '' = $1 and store_id = any($2::text[])
order by store, store_id, first_seen_at desc, last_told_at desc;
