-- name: announce_catalog
-- increment the catalog's version, so that readers parse it again
update projects set catalog_version = catalog_version + 1 where id = $1;

-- name: add_past_events
-- events that happened before, in the order of the feed; nobody is told of them
with head as (
    update feeds
    set position = position + cardinality($4::text[]),
        partition = greatest(partition, (select max(p.partition) from partitions p))
    where project_id = $1
    returning position - cardinality($4::text[]) as before, partition
)
insert into events (
    project_id, position, id, customer_id, sequence, type, environment, app_id, occurred_at, committed_at, body,
    partition
)
select $1, head.before + n.place, n.id, n.customer_id, n.sequence, n.type, n.environment, n.app_id, n.at, $2, n.body,
    head.partition
from head
cross join unnest(
    $3::bigint[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::text[], $9::bigint[], $10::json[]
) with ordinality as n (customer_id, id, sequence, type, environment, app_id, at, body, place);
