-- name: look_at_server
-- one PostgreSQL: version, size, connections, the oldest transaction, unfinished two-phase commits, replication slots
-- Also sent to every node of a cluster, as one column of JSON. What the database user may not see is null.
select
    current_setting('server_version') as version,
    pg_is_in_recovery() as is_standby,
    pg_database_size(current_database()) as bytes,
    (extract(epoch from pg_postmaster_start_time()) * 1000)::bigint as started_at,
    (select sum(numbackends) from pg_stat_database)::bigint as connections,
    current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint
        as most_connections,
    (
        select json_build_object(
            'application', coalesce(a.application_name, ''), 'state', coalesce(a.state, ''),
            'age', (extract(epoch from clock_timestamp() - a.xact_start) * 1000)::bigint
        )
        from pg_stat_activity a
        where a.xact_start is not null and a.pid <> pg_backend_pid() and a.backend_type = 'client backend'
        order by a.xact_start
        limit 1
    ) as oldest,
    (select count(*) from pg_prepared_xacts) as prepared,
    (
        select coalesce((extract(epoch from clock_timestamp() - min(p.prepared)) * 1000)::bigint, 0)
        from pg_prepared_xacts p
    ) as prepared_age,
    (select age(d.datfrozenxid) from pg_database d where d.datname = current_database()) as unfrozen_age,
    (
        select coalesce(json_agg(json_build_object(
            'name', s.slot_name, 'active', s.active,
            -- A standby writes no log of its own: the difference is not known there.
            'kept_bytes', case when pg_is_in_recovery() then 0 else
                coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn)::bigint, 0) end
        )), '[]')
        from pg_replication_slots s
    ) as slots;

-- name: look_at_tables
-- our tables on this server: estimated rows, size with indexes, dead rows; partitions one by one, under their table
select
    coalesce(root.relname, c.relname) as name,
    case when root.oid is not null then c.relname end as partition,
    coalesce(pg_get_expr(c.relpartbound, c.oid), '') as bounds,
    case when c.reltuples >= 0 then c.reltuples::bigint end as rows,
    pg_total_relation_size(c.oid) as bytes,
    coalesce(pg_stat_get_dead_tuples(c.oid), 0) as dead, '' as place
from pg_class c
left join pg_class root on root.oid = pg_partition_root(c.oid) and root.oid <> c.oid
where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'
order by bytes desc;

-- name: look_at_standbys
-- the servers that follow this one, and how far behind they are
select
    coalesce(r.application_name, '') as name,
    coalesce(host(r.client_addr), '') as address,
    r.state,
    r.sync_state as sync,
    (extract(epoch from r.replay_lag) * 1000)::bigint as lag,
    case when not pg_is_in_recovery() then pg_wal_lsn_diff(pg_current_wal_lsn(), r.replay_lsn)::bigint end as lag_bytes
from pg_stat_replication r
order by r.sync_state desc nulls last, name;

-- name: synchronous_standbys
-- the standbys for which a commit waits
select current_setting('synchronous_standby_names');

-- name: look_at_feeds
-- the projects with the most events ever, and how many those are; a feed has one row for each project
-- After a restore positions go on a thousand million higher.
select f.project_id as id, f.position % 1000000000 as events,
    coalesce((select p.name from projects p where p.id = f.project_id), '') as name
from feeds f
order by events desc
limit $1;

-- name: count_events_since
-- how many events a project has had since an instant, without counting them: halve the range of positions until the first
-- event after that instant is found. Some 30 lookups by key, however large the table is.
with recursive search as (
    select 0::bigint as low, f.position as high, f.position as head from feeds f where f.project_id = $1
    union all
    select
        case when coalesce(e.committed_at >= $2, false) then s.low else (s.low + s.high) / 2 + 1 end,
        case when coalesce(e.committed_at >= $2, false) then (s.low + s.high) / 2 else s.high end,
        s.head
    from search s
    left join lateral (
        select e.committed_at from events e
        where e.project_id = $1 and e.position > (s.low + s.high) / 2
        order by e.position
        limit 1
    ) as e on true
    where s.low < s.high
)
select (s.head - s.high) % 1000000000 from search s where s.low = s.high limit 1;

-- name: find_citus
-- the version of Citus, if this database has it
select extversion from pg_extension where extname = 'citus';

-- name: look_at_nodes
-- the nodes of a cluster
select n.nodeid as id, n.nodename as host, n.nodeport as port,
    case when n.noderole <> 'primary' then 'standby' when n.groupid = 0 then 'coordinator' else 'worker' end as role
from pg_dist_node n
order by n.groupid, n.nodeid;

-- name: ask_nodes
-- run one statement on every node; a node that does not answer says so instead of failing the others
select a.nodeid as id, a.success, a.result
from run_command_on_all_nodes($1, give_warning_for_connection_errors := true) a;

-- name: look_at_shards
-- every placement of a shard: its table, its node, its size, and the range of hash values that puts it beside others
select
    coalesce(root.relname, c.relname) as name,
    case when root.oid is not null then c.relname end as partition,
    coalesce(pg_get_expr(c.relpartbound, c.oid), '') as bounds,
    s.shardid as id, s.shard_name, s.nodename as host, s.nodeport as port, coalesce(s.shard_size, 0) as bytes,
    case s.citus_table_type when 'distributed' then 'by project' when 'reference' then 'on every node'
        else 'coordinator' end as place,
    coalesce(d.shardminvalue, '') as range
from citus_shards s
join pg_class c on c.oid = s.table_name::oid
left join pg_class root on root.oid = pg_partition_root(c.oid) and root.oid <> c.oid
join pg_dist_shard d on d.shardid = s.shardid;

-- name: place_projects
-- the shard of each project's feed; every other table has the project in a shard with the same range
select p.id, get_shard_id_for_distribution_column('feeds', p.id) as shard from projects p;

-- name: look_at_shard_rows
-- sent to every node of a cluster: estimated rows and dead rows of the shards that it has
select coalesce(json_agg(json_build_array(s.shardid, c.reltuples::bigint, pg_stat_get_dead_tuples(c.oid))), '[]')
from pg_dist_shard s
join pg_class c on c.oid = to_regclass(shard_name(s.logicalrelid, s.shardid));
