-- name: announce
-- add an operational event about a webhook
insert into operational_events (project_id, id, webhook_id, type, at, body, next_at) values ($1, $2, $3, $4, $5, $6, $5);

-- name: claim_announcements
-- claim operational events due for the operations URL, with a lease
update operational_events
set next_at = $2
where ctid = any(array(
    select e.ctid from operational_events e where e.next_at <= $1 order by e.next_at limit 20 for update skip locked
))
returning project_id, id, at, attempts, body;

-- name: record_announcement
-- record the outcome of sending an operational event
update operational_events
set attempts = attempts + 1, next_at = $3, delivered_at = $4, error = $5
where project_id = $1 and id = $2;
