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
    -- Locked in the same order as in admit_requests.
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
-- for reads with keys in a distributed database: the second half of admit_reads, on the node of the project ($1). The
-- first of the ids ($2) is at position $3 of the whole; the column of the key is filled in later
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

-- name: projects_of_webhooks
-- for a distributed database: the project of each of these webhooks, by its key
select key, project_id from webhooks where key = any($1::bigint[]);

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

-- name: size_of_spread_partition
-- for a distributed database: as size_of_partition, over all nodes
select citus_total_relation_size(to_regclass('deliveries_' || $1::integer))
        + citus_total_relation_size(to_regclass('attempts_' || $1)) as deliveries,
    citus_total_relation_size(to_regclass('events_' || $1 / 1000)) as events;

-- name: insert_customer_counter
-- for a distributed database: the counter of the keys of a new project's customers
insert into customer_keys (project_id, last) values ($1, 0) on conflict do nothing;
