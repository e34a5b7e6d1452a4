-- name: create_webhook
-- a new webhook
insert into webhooks (
    project_id, id, name, url, environment, event_types, app_id, retry_seconds, in_flight_limit, enabled, dialect,
    authorization_sealed, destination_sealed, secret_sealed, created_at, updated_at
)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $15)
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
set name = $3, url = $4, environment = $5, event_types = $6, app_id = $7, retry_seconds = $8,
    in_flight_limit = $9, enabled = $10, dialect = $11, authorization_sealed = $12, destination_sealed = $13,
    updated_at = $14, version = version + 1
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
set deleted_at = $3, enabled = false, authorization_sealed = null, destination_sealed = null,
    previous_secret_sealed = null, secret_sealed = '',
    version = version + 1
where project_id = $1 and id = $2 and deleted_at is null
returning key;

-- name: lock_health
-- lock the health of webhooks that had failures, or have recovered, in the same order everywhere
select * from webhooks where key = any($1::bigint[]) order by key for no key update;

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

-- name: list_replays
-- the replays of a webhook with their progress, newest first; one of them, if its id is given
select r.id, w.id as webhook_id, r.since_ms, r.until_ms, r.status, r.event_types, r.created_at,
    r.position - r.first_position as examined, r.last_position - r.first_position as total, r.scheduled, r.hurried,
    r.finished_at,
    case when r.stopped_at is not null then 'stopped' when r.finished_at is null then 'running' else 'finished' end as state,
    0 as delivered, 0 as failed
from replays r
join webhooks w on w.key = r.webhook_key
where r.project_id = $1 and w.id = $2 and ($3::text is null or r.id = $3)
order by r.created_at desc, r.id
limit $4;

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
returning *;

-- name: prune_announcements
-- delete operational events from before a time; where no operations URL is set, they wait to be sent for ever
delete from operational_events where at < $1;

-- name: record_announcement
-- record the outcome of sending an operational event
update operational_events
set attempts = attempts + 1, next_at = $3, delivered_at = $4, error = $5
where project_id = $1 and id = $2;

-- name: count_deliveries_of_webhooks
-- counts among a bounded number of the newest deliveries of webhooks: the status is in no index. Only while a webhook
-- fails a second lookup is needed: its last success was created before the failures began, or soon after.
select
    w.key,
    (select coalesce(sum(l.waiting), 0)::bigint from lanes l where l.webhook_key = w.key) as waiting,
    newest.failed,
    case when w.failing_since is null then newest.last_success_at else (
        select max(older.finished_at) from (
            select d.status, d.finished_at from deliveries d
            where d.webhook_key = w.key and d.created_at <= w.failing_since
            order by d.created_at desc, d.customer_id desc, d.sequence desc
            limit 10000
        ) as older
        where older.status = 'delivered'
    ) end as last_success_at
from webhooks w
cross join lateral (
    select
        count(*) filter (where d.status <> 'delivered' and d.error is not null) as failed,
        max(d.finished_at) filter (where d.status = 'delivered') as last_success_at
    from (
        select status, finished_at, error from deliveries
        where webhook_key = w.key
        order by created_at desc, customer_id desc, sequence desc
        limit 10000
    ) as d
) as newest
where w.key = any($1::bigint[]);

-- part: fitting_delivery
($6::text is null or d.status = $6 or $6 = 'failing' and d.status <> 'delivered' and d.error is not null)
        and ($7::text is null or d.event_type = $7)
        and ($10::int is null or d.attempts > 0 and coalesce(d.response_status, 0) between $10 and $11)

-- part: event_of_delivery
left join events e on e.project_id = d.project_id and e.customer_id = d.customer_id and e.sequence = d.sequence
    and e.partition >= d.partition

-- name: page_of_deliveries
-- a webhook's deliveries, newest first. At most so many are examined, whatever the filter; the last row, if marked, says
-- how far that was, so that a rare status among millions takes several pages, not minutes.
with examined as materialized (
    select d.*, {fitting_delivery} as wanted
    from deliveries d
    where d.webhook_key = $1 and (d.created_at, d.customer_id, d.sequence) < ($2::bigint, $3::bigint, $4::bigint)
        and d.created_at >= $5
    order by d.created_at desc, d.customer_id desc, d.sequence desc
    limit $9
),
chosen as (
    select * from examined where wanted
    order by created_at desc, customer_id desc, sequence desc
    limit $8
),
furthest as (
    select * from examined
    order by created_at, customer_id, sequence
    limit case when (select count(*) from examined) = $9 then 1 else 0 end
)
select false as is_mark, d.*, coalesce(e.body ->> 'app_user_id', '') as app_user_id
from chosen d
{event_of_delivery}
union all
select true, f.*, null from furthest f
order by is_mark, created_at desc, customer_id desc, sequence desc;

-- name: deliveries_of_customer
-- one customer's deliveries to a webhook, newest first, including those of merged customers
select d.*, coalesce(e.body ->> 'app_user_id', '') as app_user_id
from deliveries d
{event_of_delivery}
where d.project_id = $1 and d.customer_id = any({customer_and_absorbed}) and d.webhook_key = $9
    and (d.created_at, d.customer_id, d.sequence) < ($3::bigint, $4::bigint, $5::bigint)
    and d.created_at >= $12
    and {fitting_delivery}
order by d.created_at desc, d.customer_id desc, d.sequence desc
limit $8;

-- name: load_delivery
-- one delivery with its event, and when it is tried next if it is the first in its lane
select d.*, coalesce(e.body ->> 'app_user_id', '') as app_user_id, e.body,
    case when d.status = 'waiting' then (
        select l.next_at from lanes l
        where l.project_id = d.project_id and l.customer_id = d.customer_id and l.webhook_key = d.webhook_key
            and l.aside = case when d.aside then d.sequence else 0 end
            and not exists (
                select from deliveries f
                where f.project_id = d.project_id and f.customer_id = d.customer_id and f.webhook_key = d.webhook_key
                    and not d.aside and not f.aside and f.status = 'waiting'
                    and f.sequence > l.done and f.sequence < d.sequence
            )
    ) end as next_at
from events e
join deliveries d on d.project_id = e.project_id and d.customer_id = e.customer_id and d.sequence = e.sequence
where e.project_id = $1 and e.id = $2 and d.webhook_key = $3;

-- name: disown_lanes
-- no outcome of a delivery under way is recorded in the lanes of these events' customers: it is sent again after its lease
with held as (
    select l.project_id, l.customer_id, l.webhook_key, l.aside
    from lanes l
    where l.project_id = $1
        and l.customer_id in (select e.customer_id from events e where e.project_id = $1 and e.id = any($2::text[]))
    order by l.project_id, l.customer_id, l.webhook_key, l.aside
    for update of l
)
update lanes l
set token = 0
from held h
where l.project_id = h.project_id and l.customer_id = h.customer_id and l.webhook_key = h.webhook_key
    and l.aside = h.aside;

-- name: forget_deliveries
-- remove what was sent of these events and what was answered, from every attempt
-- Each webhook is named, so that every row is found by its whole key.
with told as materialized (
    select e.project_id, e.customer_id, w.key as webhook_key, e.sequence
    from events e
    join webhooks w on w.project_id = e.project_id
    where e.project_id = $1 and e.id = any($2::text[])
),
forgotten as (
    update attempts a
    set request_headers = '{}', response_headers = null, response_body = null,
        error = case when a.error is not null then $3 end
    from told t
    where a.project_id = t.project_id and a.customer_id = t.customer_id and a.webhook_key = t.webhook_key
        and a.sequence = t.sequence
)
update deliveries d
set error = $3
from told t
where d.project_id = t.project_id and d.customer_id = t.customer_id and d.webhook_key = t.webhook_key
    and d.sequence = t.sequence and d.error is not null;

-- name: attempts_of_delivery
-- the stored attempts of a delivery, in order
select * from attempts
where project_id = $1 and customer_id = $2 and webhook_key = $3 and sequence = $4
order by number;

-- name: last_failed_attempt
-- the newest failed attempt of a webhook, among a bounded number: those of lanes that are being retried, and those of
-- the newest deliveries that have an error. An attempt's time is in no index.
with tried as (
    (
        select d.project_id, d.customer_id, d.sequence, d.event_id, d.event_type, d.attempts
        from (
            select * from lanes where webhook_key = $1 order by next_at desc limit 1000
        ) as l
        cross join lateral (
            select * from deliveries h
            where h.project_id = l.project_id and h.customer_id = l.customer_id and h.webhook_key = $1
                and h.sequence > l.done and h.status = 'waiting' and h.error is not null
            order by h.sequence
            limit 1
        ) as d
        where l.tries > 0
        limit 200
    )
    union
    (
        select project_id, customer_id, sequence, event_id, event_type, attempts
        from (
            select * from deliveries where webhook_key = $1
            order by created_at desc, customer_id desc, sequence desc
            limit 10000
        ) as newest
        where error is not null
        limit 200
    )
)
select t.event_id, t.event_type, a.*
from tried t
join attempts a on a.project_id = t.project_id and a.customer_id = t.customer_id and a.webhook_key = $1
    and a.sequence = t.sequence and a.number = t.attempts
where a.error is not null
order by a.at desc
limit 1;

-- name: page_of_operational_events
-- operational events about webhooks, newest first, after a given one; or the one with an id
select * from operational_events
where project_id = $1 and ($4::text is null or id = $4) and ($5::text is null or webhook_id = $5)
    and ($2::text is null or (at, id) < (select e.at, e.id from operational_events e where e.project_id = $1 and e.id = $2))
order by at desc, id desc
limit $3;

-- name: webhook_was_made
-- whether a webhook with this id exists, or existed lately
select exists (select from webhooks where project_id = $1 and id = $2);
