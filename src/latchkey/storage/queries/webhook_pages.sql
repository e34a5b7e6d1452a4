-- name: troubled_webhooks
-- a project's webhooks whose last attempts all failed
select id, name, failures, open_until, failing_since, announced_at, paused_at
from webhooks
where project_id = $1 and deleted_at is null and failing_since is not null
order by key
limit $2;

-- name: replays_of_webhook
-- the replays of a webhook, newest first. They are few, because each is started by hand.
select r.id, r.since_ms, r.until_ms, r.status, r.created_at, r.scheduled, r.finished_at, r.stopped_at
from replays r
join webhooks w on w.key = r.webhook_key
where w.project_id = $1 and w.id = $2 and w.deleted_at is null
order by r.created_at desc, r.id
limit $3;
