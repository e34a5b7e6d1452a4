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
