-- name: known_events
-- which of these events exist already
select asked.project_id, asked.id
from unnest($1::text[], $2::text[]) as asked (project_id, id)
join events e on e.id = asked.id and e.project_id = asked.project_id;

-- name: events_of_project
-- a page of a project's events, oldest first, after a position and up to another
select position, customer_id, committed_at, body from events
where project_id = $1 and position > $2 and position <= $3
order by position
limit $4;

-- name: events_of_customer
-- a page of a customer's events, oldest first
select position, body from events
where project_id = $1 and position > $3 and customer_id = any({customer_and_absorbed})
order by position
limit $4;

-- name: events_after_event
-- a page of a project's events that begins after one of them; no row: there is no such event, one without a body: it is
-- the newest. $4 is a partition that it is not older than: older partitions are not even opened.
select e.body, coalesce(e.id, $2) as id, coalesce(e.partition, place.partition) as partition
from (select position, partition from events where project_id = $1 and id = $2 and partition >= $4 limit 1) as place
left join lateral (
    -- A project's partitions never go back, so older partitions are not read.
    select n.position, n.id, n.partition, n.body from events n
    where n.project_id = $1 and n.position > place.position and n.partition >= place.partition and n.partition >= $4
    order by n.position limit $3
) as e on true
order by e.position;

-- name: event_by_id
-- the places of an event in the feed and in its customer's sequence; the limit ends the search at the right partition
select position, customer_id, sequence from events where project_id = $1 and id = $2 limit 1;

-- name: transfers_from
-- TRANSFER events of purchases that came from one of these ids, and who received them
select e.id, e.body, c.app_user_id
from events e
left join absorbed_customers m on m.project_id = e.project_id and m.absorbed_id = e.customer_id
left join customers c on c.project_id = e.project_id and c.id = coalesce(m.customer_id, e.customer_id)
where e.project_id = $1 and e.type = 'TRANSFER' and (e.body -> 'transferred_from')::jsonb ?| $2::text[];

-- name: replace_bodies
-- replace the bodies of events, without personal data
with replaced as (
    update events e set body = n.body
    from unnest($2::text[], $3::json[]) as n (id, body)
    where e.project_id = $1 and e.id = n.id
    returning e.project_id, e.position
)
insert into rewritten_events (project_id, position) select project_id, position from replaced
on conflict (project_id, position) do update set xid = default;

-- part: customer_and_absorbed
array(select absorbed_id from absorbed_customers where project_id = $1 and customer_id = $2) || $2::bigint

-- name: keep_event_traces
-- the traces of new events of a project
insert into event_traces (project_id, event_id, traceparent, at)
select $1, n.event_id, n.traceparent, $4
from unnest($2::text[], $3::text[]) as n (event_id, traceparent)
on conflict do nothing;

-- name: load_event_traces
-- the traces of events that are about to be delivered
select n.project_id, n.event_id, found.traceparent
from unnest($1::text[], $2::text[]) as n (project_id, event_id)
cross join lateral (
    select t.traceparent from event_traces t where t.project_id = n.project_id and t.event_id = n.event_id limit 1
) as found;

-- name: prune_event_traces
-- a batch of traces from before a moment
delete from event_traces where ctid = any(array(select ctid from event_traces where at < $1 order by at limit $2));
