-- part: delete_old
for update skip locked
),
attempted as (
    delete from attempts a
    using old o
    where a.project_id = o.project_id and a.customer_id = o.customer_id and a.webhook_key = o.webhook_key
        and a.sequence = o.sequence and a.partition = o.partition
),
gone as (
    delete from deliveries d
    using old o
    where d.project_id = o.project_id and d.customer_id = o.customer_id and d.webhook_key = o.webhook_key
        and d.sequence = o.sequence and d.partition = o.partition
    returning 1
)
select count(*) from gone

-- name: prunable_webhooks
-- the webhooks whose log may contain something old, and deleted webhooks
select key, deleted_at is not null as deleted from webhooks;

-- name: prune_deliveries
-- delete a batch of a partition's delivered deliveries from before a time, with their attempts, unless they are locked
with old as (
    select project_id, customer_id, webhook_key, sequence, partition
    from deliveries
    where webhook_key = $1 and created_at < $2 and status = 'delivered' and finished_at < $2 and partition = $4
    order by created_at
    limit $3
    {delete_old};

-- name: clear_lanes_of_deleted
-- delete a batch of lanes of a deleted webhook
delete from lanes where ctid = any(array(select ctid from lanes where webhook_key = $1 limit $2 for update skip locked))
returning 1;

-- name: clear_deleted
-- delete a batch of the log of a deleted webhook
with old as (
    select project_id, customer_id, webhook_key, sequence, partition
    from deliveries
    where webhook_key = $1
    limit $2
    {delete_old};

-- name: webhook_has_rows
-- whether anything is left of a deleted webhook in its project
select exists (select from deliveries d where d.webhook_key = $1) or exists (select from lanes l where l.webhook_key = $1);

-- name: webhook_is_replayed
-- whether a replay of this webhook is unfinished
select exists (select from replays r where r.webhook_key = $1 and r.finished_at is null);

-- name: forget_empty_webhook
-- delete a deleted webhook of which nothing is left elsewhere
delete from webhooks w
where w.key = $1 and w.deleted_at is not null;
