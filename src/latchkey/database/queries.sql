-- name: load_a_sealed_secret
-- something encrypted with LATCHKEY_SECRET_KEY, to check a key with; there is none before the first webhook
select id, secret_sealed
from webhooks
where deleted_at is null
order by key desc
limit 1

-- name: write_probe
-- write a megabyte to a temporary file (tables can grow) and one record to the write-ahead log (commits work): fails if
-- the disk is full, and leaves nothing behind. Returns whether the database is read-only
with room as materialized (select repeat('x', 4000) as page from generate_series(1, 256))
select
    current_setting('transaction_read_only')::boolean, count(page), pg_logical_emit_message(true, 'latchkey', 'write probe')
from room;

-- name: server_identity
-- which cluster and timeline a server is on, and whether it takes changes: asked once for each new connection. After a
-- promotion the control file is late, so a primary says what timeline it writes to
select
    (select system_identifier::text from pg_control_system()) as system,
    case when pg_is_in_recovery() then (
        select greatest(c.timeline_id, r.min_recovery_end_timeline)::bigint
        from pg_control_checkpoint() as c, pg_control_recovery() as r
    ) else ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint end as timeline,
    {server_state}, {waits_for_standby} as waits, {database_now} as now;

-- name: server_role
-- the same without cluster and timeline, for a service that hides them
select '' as system, 0::bigint as timeline, {server_state}, {waits_for_standby} as waits, {database_now} as now;

-- part: server_state
pg_is_in_recovery() as standby, current_setting('transaction_read_only')::boolean as read_only

-- name: count_reads
-- for reads with keys in a distributed database: the first half of admit_reads, on the coordinator
select
    asked.place, asked.project_id,
    json_build_array(
        taken.granted, taken.retry_after_us, taken.used, taken.open_us, asked.rate_limit, p.catalog_version,
        {caller_columns},
        coalesce(taken.leased, 0), taken.leased_at, taken.leased_us
    ) as said
from (
    -- Locked in the same order as in admit_reads.
    select k.*, s.store, a.place, a.wanted, a.ahead, a.back, a.settled, a.back_at, a.amount
    from unnest(
        $1::bytea[], $2::integer[], $3::integer[], $4::integer[], $5::integer[], $6::integer[], $7::bigint[]
    ) with ordinality as a (hash, amount, wanted, ahead, back, settled, back_at, place)
    join api_keys k on k.hash = a.hash and k.revoked_at is null
    left join apps s on s.project_id = k.project_id and s.id = k.app_id
    order by k.id
) as asked
{counted_with_leases}
join projects p on p.id = asked.project_id;

-- name: read_admitted
-- the second half of admit_reads in a distributed database, on the project's node; $3 is the place of the first id
select
    $3::integer + q.place as place, {read_row},
    null::json as of_key
from unnest($2::text[]) with ordinality as q (app_user_id, place)
cross join lateral (
    select a.project_id, a.customer_id from aliases a
    where a.project_id = $1 and a.app_user_id = q.app_user_id
    limit 1
) as a
join customers c on c.project_id = a.project_id and c.id = a.customer_id;

-- name: a_project_of_each_shard
-- for a distributed database: one project of each shard that has any
select distinct on (shard) get_shard_id_for_distribution_column('feeds', id) as shard, id from projects order by 1, 2;

-- name: nodes_with_shards
-- for a distributed database: the nodes that have projects
select distinct n.nodename as host, n.nodeport as port, n.groupid = 0 as is_coordinator
from pg_dist_shard s
join pg_dist_placement p on p.shardid = s.shardid
join pg_dist_node n on n.groupid = p.groupid and n.noderole = 'primary' and n.isactive
where s.logicalrelid = 'feeds'::regclass and p.shardstate = 1;

-- name: node_of_project
-- for a distributed database: the address of the worker that has a project, and its shard; none if the coordinator has it
select n.nodename as host, n.nodeport as port, p.shardid as shard
from pg_dist_placement p
join pg_dist_node n on n.groupid = p.groupid and n.groupid <> 0 and n.noderole = 'primary' and n.isactive
where p.shardid = get_shard_id_for_distribution_column('feeds', $1::text) and p.shardstate = 1;

-- name: insert_customer_counter
-- for a distributed database: the counter of the keys of a new project's customers
insert into customer_keys (project_id, last) values ($1, 0) on conflict do nothing;

-- part: database_now
(extract(epoch from clock_timestamp()) * 1000)::bigint

-- part: waits_for_standby
(current_setting('synchronous_standby_names') <> '' and current_setting('synchronous_commit') not in ('off', 'local'))

-- name: server_found
-- the server that this database is on, and the one that was noted; on a standby the timeline is null
-- The upper half of the oid is that of a table of ours, which a dump that is loaded into the same database creates anew.
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
    k.waits_for_standby as waited, k.noted_at, k.before_waited_at, k.is_unclear
from (select 1) as one
left join server_identity k on k.id = 1;

-- name: lock_server
-- whoever else settles a failover waits
select from server_identity for update;

-- name: timeline_history
-- why a timeline began: the server's own file, which only a superuser may read
select pg_read_file('pg_wal/' || lpad(upper(to_hex($1::integer)), 8, '0') || '.history', 0, 1000000, true);

-- name: note_server
-- the server that this database is on now
insert into server_identity as s (system_identifier, database_oid, timeline, waits_for_standby, noted_at, is_unclear)
values ($1, $2, $3, {waits_for_standby}, {database_now}, coalesce($4, false))
on conflict (id) do update set
    before_waited_at = case
        when s.timeline = excluded.timeline then s.before_waited_at
        when s.waits_for_standby then s.noted_at
    end,
    system_identifier = excluded.system_identifier, database_oid = excluded.database_oid,
    timeline = excluded.timeline, waits_for_standby = excluded.waits_for_standby, noted_at = excluded.noted_at,
    is_unclear = coalesce($4, s.is_unclear);

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
insert into restores as r (system_identifier, database_oid, timeline) values ($1, $2, $3)
on conflict (system_identifier, database_oid, timeline) do update set moved_at = r.moved_at
returning moved_at, finished_at;

-- name: note_moved
-- sequences, positions and keys have moved on
update restores set moved_at = $4 where system_identifier = $1 and database_oid = $2 and timeline = $3;

-- name: finish_restore
-- after-restore is done, also for failovers before this one
update restores set finished_at = $1
where finished_at is null or (system_identifier, database_oid, timeline) = ($2, $3, $4);

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
set sequence_floor = greatest((p.sequence_floor + f.position - p.floor_position) / $3 + 2, $5) * $3,
    floor_position = greatest(f.position + $4, $5::bigint * $4 + f.position % $4),
    catalog_version = p.catalog_version + $3
from unnest($1::text[], $2::bigint[]) as f (project_id, position)
where p.id = f.project_id;

-- name: move_feeds_on
-- the next event of every project gets a position this much higher, and in this stretch at least
update feeds set position = greatest(position + $1, $2::bigint * $1 + position % $1);

-- name: move_customer_keys_of_projects_on
-- the same in a distributed database, which counts them for each project; elsewhere there is nothing to do
update customer_keys set last = greatest(last + $1, $2::bigint * $1 + last % $1);

-- name: move_customer_keys_on
-- the same for the next customer's key: ids of events are derived from it
select setval(s.name, greatest(coalesce(pg_sequence_last_value(s.name), 0) + $1::bigint, $2::bigint * $1))
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

-- name: stop_replays_and_announcements
-- replays that were under way queue nothing more, and operational events that were due are not sent
with replayed as (update replays set finished_at = $1 where finished_at is null returning 1),
announced as (update operational_events set next_at = null, error = $2 where next_at is not null returning 1)
select (select count(*) from replayed) as replays, (select count(*) from announced) as events;

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

-- part: page_by_age
($2::text is null or (created_at, id) > (select n.created_at, n.id from <table> n where n.project_id = $1 and n.id = $2))
    and ($4::text is null or id = $4)
order by created_at, id
limit $3

-- part: page
($2::text is null or <column> > $2) and ($4::text is null or <column> = $4)
order by <column>
limit $3

-- part: due_rows
where ctid = any(array(
    select d.ctid from <table> d where d.<column> <= $1 order by d.<column> limit $3 for update skip locked
))
