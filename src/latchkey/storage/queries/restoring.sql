-- part: database_now
(extract(epoch from clock_timestamp()) * 1000)::bigint

-- part: waits_for_standby
(current_setting('synchronous_standby_names') <> '' and current_setting('synchronous_commit') not in ('off', 'local'))

-- name: server_found
-- the server that this database is on, and the one that was noted; on a standby the timeline is null
-- The database's oid has that of a table of ours in its upper half: a dump that is loaded into the same database again
-- creates the table anew.
select
    (select system_identifier from pg_control_system())::text as system_identifier,
    (
        select ('server_identity'::regclass::oid::bigint << 32) | d.oid::bigint
        from pg_database d
        where d.datname = current_database()
    ) as database_oid,
    case when not pg_is_in_recovery() then
        ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::integer
    end as timeline,
    {waits_for_standby} as waits,
    {database_now} as now,
    k.system_identifier as known_identifier, k.database_oid as known_oid, k.timeline as known_timeline,
    k.waits_for_standby as waited, k.noted_at
from (select 1) as one
left join server_identity k on k.id = 1;

-- name: lock_server
-- whoever else settles a failover waits
select from server_identity for update;

-- name: timeline_history
-- why a timeline began: the server's own file, which only a superuser may read
select pg_read_file('pg_wal/' || lpad(to_hex($1::integer), 8, '0') || '.history', 0, 1000000, true);

-- name: note_server
-- the server that this database is on now
insert into server_identity (system_identifier, database_oid, timeline, waits_for_standby, noted_at)
values ($1, $2, $3, {waits_for_standby}, {database_now})
on conflict (id) do update set
    system_identifier = excluded.system_identifier, database_oid = excluded.database_oid,
    timeline = excluded.timeline, waits_for_standby = excluded.waits_for_standby, noted_at = excluded.noted_at;

-- name: running_services
-- processes of the service that are connected to this database
select a.application_name as name, count(*) as connections
from pg_stat_activity a
where a.datname = current_database() and a.pid <> pg_backend_pid()
    and a.application_name ~ '^latchkey (api|clock|delivery|listening)'
group by a.application_name
order by a.application_name;

-- name: begin_restore
-- remember that after-restore began for this restore; how far it came, if it did before
insert into restores as r (system_identifier, database_oid, timeline, started_at) values ($1, $2, $3, $4)
on conflict (system_identifier, database_oid, timeline) do update set started_at = r.started_at
returning started_at, moved_at, finished_at;

-- name: note_moved
-- sequences, positions and keys have moved on
update restores set moved_at = $4 where system_identifier = $1 and database_oid = $2 and timeline = $3;

-- name: finish_restore
-- after-restore is done, also for failovers before this one, and what it did
update restores set finished_at = $1, counts = $2
where finished_at is null or (system_identifier, database_oid, timeline) = ($3, $4, $5);

-- name: lossy_failovers
-- failovers that may have lost commits, and for which after-restore has not run
select count(*) from restores where moved_at is not null and finished_at is null;

-- name: feed_heads
-- how many positions every project has given
select project_id, position from feeds;

-- name: raise_sequence_floors
-- the next event of every customer gets a sequence above all that were given: in a project, these are at most as many as
-- positions since the floor was last raised. Cached catalogs may have versions that were lost: none is given again
update projects p
set sequence_floor = ((p.sequence_floor + f.position - p.floor_position) / $3 + 2) * $3,
    floor_position = f.position + $4,
    catalog_version = p.catalog_version + $3
from unnest($1::text[], $2::bigint[]) as f (project_id, position)
where p.id = f.project_id;

-- name: move_feeds_on
-- the next event of every project gets a position this much higher
update feeds set position = position + $1;

-- name: move_customer_keys_of_projects_on
-- the same in a distributed database, which counts them for each project; elsewhere there is nothing to do
update customer_keys set last = last + $1;

-- name: move_customer_keys_on
-- the next customer gets a key this much higher: ids of events are derived from it
select setval(s.name, coalesce(pg_sequence_last_value(s.name), 0) + $1::bigint)
from (select pg_get_serial_sequence('customers', 'id')::regclass as name) as s;

-- name: hold_lanes
-- close the next lanes: what waits in them has failed, for a reason, and can be sent again like everything that failed
with closed as (
    delete from lanes
    where ctid = any(array(
        select l.ctid from lanes l order by l.project_id, l.customer_id, l.webhook_key, l.aside limit $1
    ))
    returning project_id, customer_id, webhook_key
),
held as (
    -- Of lanes that are closed together, so a delivery that left its lane is found by either.
    update deliveries d
    set status = 'failed', aside = false, finished_at = $2, error = $3, response_status = null
    from (select distinct c.project_id, c.customer_id, c.webhook_key from closed c) as lane
    where d.project_id = lane.project_id and d.customer_id = lane.customer_id and d.webhook_key = lane.webhook_key
        and d.status = 'waiting'
    returning 1
)
select (select count(*) from closed) as lanes, (select count(*) from held) as deliveries;

-- name: free_lanes
-- end the leases of the next lanes: their workers are gone
with freed as (
    update lanes
    set lease_until = 0, token = token + 1, next_at = least(next_at, $2)
    where ctid = any(array(select l.ctid from lanes l where l.lease_until > 0 or l.next_at > $2 limit $1))
    returning 1
)
select count(*) from freed;

-- name: stop_replays
-- replays that were under way queue nothing more
update replays set finished_at = $1 where finished_at is null;

-- name: hold_announcements
-- operational events that were due for the operations URL are not sent
update operational_events set next_at = null, error = $1 where next_at is not null;

-- name: reset_webhook_health
-- failures of before the restore say nothing about the receivers of today
update webhooks set failures = 0, open_until = null, failing_since = null, announced_at = null
where failures > 0 or open_until is not null or failing_since is not null or announced_at is not null;

-- name: free_exports
-- end the leases of exports: their processes are gone
update exports set lease_until = 0, token = token + 1 where lease_until > 0;

-- name: read_histories_again
-- the stores' histories of notifications are due
update store_connections set history_read_to = least(history_read_to, $1) where history_read_to is not null;

-- name: read_purchases_again
-- the next purchases of a project are due to be read from their stores, one after the other
with next as (
    select n.project_id, n.store, n.handle_hash, row_number() over (order by n.store, n.handle_hash) as place
    from store_handles n
    where n.project_id = $1 and (n.store, n.handle_hash) > ($2, $3) and (n.check_at is not null or n.last_told_at >= $4)
    order by n.store, n.handle_hash
    limit $7
),
due as (
    update store_handles h
    set check_at = least(h.check_at, $5::bigint + $6::bigint * n.place)
    from next n
    where h.project_id = n.project_id and h.store = n.store and h.handle_hash = n.handle_hash
)
select n.store, n.handle_hash, n.place as purchases from next n order by n.place desc limit 1;
