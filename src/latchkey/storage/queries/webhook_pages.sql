-- name: list_replays
-- the replays of a webhook with their progress, newest first; one of them, if its id is given. They are few, because each
-- is started by hand
select r.id, w.id as webhook_id, r.since_ms, r.until_ms, r.status, r.event_types, r.created_at,
    r.position - r.first_position as examined, r.last_position - r.first_position as total, r.scheduled, r.hurried,
    r.finished_at, r.stopped_at
from replays r
join webhooks w on w.key = r.webhook_key
where r.project_id = $1 and w.id = $2 and ($3::text is null or r.id = $3)
order by r.created_at desc, r.id
limit $4;
