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
    $3::integer + q.place as place, c.id as key, c.state,
    case when c.test_clock_id is not null then (
        select t.now_ms from test_clocks t where t.project_id = c.project_id and t.id = c.test_clock_id
    ) end as now_ms,
    c.next_due_at,
    c.last_seen_at, c.last_seen_platform, c.last_seen_platform_version, c.last_seen_app_version, c.last_seen_country,
    null::json as of_key
from unnest($2::text[]) with ordinality as q (app_user_id, place)
cross join lateral (
    select a.project_id, a.customer_id from aliases a
    where a.project_id = $1 and a.app_user_id = q.app_user_id
    limit 1
) as a
join customers c on c.project_id = a.project_id and c.id = a.customer_id;

-- name: insert_project
-- for a distributed database: a project alone; nothing when the id is taken
insert into projects (id, name, created_at) values ($1, $2, $3)
on conflict (id) do nothing
returning id, name, restore_behavior, created_at, test_store;

-- name: insert_feed
-- for a distributed database: the head of a new project's event feed, and the counter of its customers' keys
with counter as (
    insert into customer_keys (project_id, last) values ($1, 0) on conflict do nothing
)
insert into feeds (project_id) values ($1) on conflict do nothing;

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

-- name: webhook_has_rows
-- for a distributed database: whether anything is left of a deleted webhook on the node of its project
select exists (select from deliveries d where d.webhook_key = $1) or exists (select from lanes l where l.webhook_key = $1);

-- name: forget_empty_webhook
-- for a distributed database: delete a deleted webhook of which nothing is left elsewhere
delete from webhooks w
where w.key = $1 and w.deleted_at is not null;

-- name: webhook_is_replayed
-- for a distributed database: whether a replay of this webhook is unfinished
select exists (select from replays r where r.webhook_key = $1 and r.finished_at is null);

-- name: replay_alone
-- for a distributed database: a replay with its progress, without the outcomes of its deliveries
select r.id, w.id as webhook_id, r.since_ms, r.until_ms, r.status, r.event_types, r.created_at,
    r.position - r.first_position as examined, r.last_position - r.first_position as total, r.scheduled, r.finished_at,
    r.hurried, r.stopped_at
from replays r
join webhooks w on w.key = r.webhook_key
where r.project_id = $1 and w.id = $2 and r.id = $3;

-- name: outcomes_of_replay
-- for a distributed database: the outcomes of a replay's deliveries
select
    (select count(*) from deliveries d where d.replay_id = $2 and d.status = 'delivered') as delivered,
    (select count(*) from deliveries d where d.replay_id = $2 and d.status = 'failed') as failed
where $1::text is not null;

-- name: forget_notifications
-- for a distributed database: the journal's part of forget_store_data
delete from store_notifications where project_id = $1 and app_user_id = any($2::text[]);

-- name: forget_handles
-- for a distributed database: the rest of forget_store_data
delete from store_handles h
using purchase_owners o
where o.project_id = $1 and o.customer_id = $2
    and h.project_id = o.project_id and h.store = o.store and h.store_id = o.store_id;

-- name: size_of_spread_part
-- for a distributed database: as size_of_part, over all nodes
select citus_total_relation_size(to_regclass('deliveries_' || $1::integer))
        + citus_total_relation_size(to_regclass('attempts_' || $1)) as deliveries,
    citus_total_relation_size(to_regclass('events_' || $1 / 1000)) as events;

-- name: forget_former_grants
-- for a distributed database: the first half of attach_products
delete from former_product_entitlements where project_id = $1 and entitlement_id = $2 and product_id = any($3::text[]);

-- name: insert_grants
-- for a distributed database: the second half of attach_products
insert into product_entitlements (project_id, product_id, entitlement_id)
select $1, product_id, $2 from unnest($3::text[]) as product_id
on conflict do nothing;

-- name: remove_grants
-- for a distributed database: the first half of detach_products
delete from product_entitlements
where project_id = $1 and entitlement_id = $2 and product_id = any($3::text[])
returning product_id;

-- name: insert_former_grants
-- for a distributed database: the second half of detach_products
insert into former_product_entitlements (project_id, product_id, entitlement_id, detached_at, detached_on_clocks)
select
    $1::text, product_id, $2::text, $4::bigint,
    coalesce((select json_object_agg(t.id, t.now_ms) from test_clocks t where t.project_id = $1), '{}')
from unnest($3::text[]) as product_id
on conflict (project_id, product_id, entitlement_id) do update
set detached_at = excluded.detached_at, detached_on_clocks = excluded.detached_on_clocks;

-- name: remove_product_apps
-- for a distributed database: the first half of set_product_apps
delete from product_apps where project_id = $1 and product_id = $2 and not app_id = any($3::text[]);

-- name: insert_product_apps
-- for a distributed database: the second half of set_product_apps
insert into product_apps (project_id, product_id, app_id, added_at)
select $1, $2, app_id, $4 from unnest($3::text[]) as app_id
on conflict do nothing;

-- name: hold_copies_of_clock
-- for a distributed database: as hold_clock, on every node; writing what is there locks each copy
update test_clocks set now_ms = now_ms where project_id = $1 and id = $2 returning now_ms;
