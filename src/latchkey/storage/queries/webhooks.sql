-- name: create_webhook
-- a new webhook
insert into webhooks (
    project_id, id, name, url, authorization_sealed, environment, event_types, app_id, retry_seconds, in_flight_limit,
    enabled, dialect, secret_sealed, created_at, updated_at
)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $14)
returning *;

-- name: lock_webhook
-- lock one webhook of a project, to change it
select * from webhooks where project_id = $1 and id = $2 and deleted_at is null for no key update;

-- name: webhooks_by_key
-- the webhooks with these keys, for workers whose copy is missing or old
select * from webhooks where key = any($1::bigint[]);

-- name: list_webhooks
-- a project's webhooks, oldest first, after a given one; or the one with an id
select * from webhooks
where project_id = $1 and deleted_at is null and ($4::text is null or id = $4) and ($2::text is null or key > (
    select w.key from webhooks w where w.project_id = $1 and w.id = $2
))
order by key
limit $3;

-- name: update_webhook
-- change a webhook's settings
update webhooks
set name = $3, url = $4, authorization_sealed = $5, environment = $6, event_types = $7, app_id = $8,
    retry_seconds = $9, in_flight_limit = $10, enabled = $11, dialect = $12, updated_at = $13,
    version = version + 1
where project_id = $1 and id = $2
returning *;

-- name: rotate_webhook_secret
-- set a new signing secret; the previous one also signs for a while
update webhooks
set previous_secret_sealed = case when $4::bigint > $5 then secret_sealed end,
    previous_secret_until = case when $4::bigint > $5 then $4 end,
    secret_sealed = $3, updated_at = $5, version = version + 1
where project_id = $1 and id = $2
returning *;

-- name: delete_webhook
-- mark a webhook as deleted: nothing more is sent; its rows are deleted later, in batches
update webhooks
set deleted_at = $3, enabled = false, authorization_sealed = null, previous_secret_sealed = null, secret_sealed = '',
    version = version + 1
where project_id = $1 and id = $2 and deleted_at is null
returning key;

-- name: lock_health
-- lock the health of webhooks that had failures, or have recovered, in the same order everywhere
select key, project_id, id, url, failures, open_until, failing_since, announced_at, paused_at
from webhooks
where key = any($1::bigint[])
order by key
for no key update;

-- name: save_health
-- store the health of webhooks after recording attempts
update webhooks w
set failures = n.failures, open_until = n.open_until, failing_since = n.failing_since, announced_at = n.announced_at,
    paused_at = n.paused_at
from unnest($1::bigint[], $2::integer[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])
    as n (key, failures, open_until, failing_since, announced_at, paused_at)
where w.key = n.key;

-- name: wake_workers
-- NOTIFY the delivery workers that these webhooks may have something to send; an empty list means all
select pg_notify('latchkey_delivery', $1);
