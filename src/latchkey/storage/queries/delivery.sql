-- name: enqueue_deliveries
-- for new events one delivery to each webhook that wants them, the lanes they wait in, and one wake-up call
with matching as (
    select w.key, n.*
    from unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[])
        as n (project_id, customer_id, sequence, event_id, type, environment, app_id)
    join webhooks w on w.project_id = n.project_id and w.enabled and w.deleted_at is null
        and (w.environment is null or w.environment = lower(n.environment))
        and (w.event_types = '{}' or n.type = any(w.event_types))
        and (w.app_id is null or w.app_id = n.app_id)
),
stored as (
    insert into deliveries (project_id, customer_id, webhook_key, sequence, event_id, event_type, created_at)
    select project_id, customer_id, key, sequence, event_id, type, $8
    from matching
),
queued as (
    insert into lanes as l (project_id, customer_id, webhook_key, waiting, done, next_at)
    select project_id, customer_id, key, count(*), min(sequence) - 1, $8
    from matching
    group by project_id, customer_id, key
    order by project_id, customer_id, key
    on conflict (project_id, customer_id, webhook_key, aside) do update set waiting = l.waiting + excluded.waiting
    returning webhook_key
)
select pg_notify('latchkey_delivery', case when count(*) <= 400 then string_agg(webhook_key::text, ',') else '' end)
from (select distinct webhook_key from queued) as woken
having count(*) > 0;
