-- name: list_parts
-- the parts whose deliveries have not been dropped, and the one that keeps what outlives them
select part, opened_at from parts where dropped_at is null order by part;

-- name: database_time
-- the time of the database's machine
select (extract(epoch from clock_timestamp()) * 1000)::bigint;

-- name: lock_parts
-- only one process at a time opens and drops parts; reading them goes on
lock table parts in share row exclusive mode;

-- name: size_of_part
-- the bytes of a part's deliveries and attempts, and of the partition that its events are in, with indexes
select pg_total_relation_size(to_regclass('deliveries_' || $1::integer))
        + pg_total_relation_size(to_regclass('attempts_' || $1)) as deliveries,
    pg_total_relation_size(to_regclass('events_' || $1 / 1000)) as events;

-- name: open_part
-- create the partitions of a new part, unless another process has
select open_part($1, $2) where not exists (select from parts where part >= $1);

-- name: part_is_pending
-- whether a delivery of a part is still pending
select exists (select from deliveries where part = $1 and status = 'waiting');

-- name: keep_deliveries
-- move what must outlive its part to the part that is kept: deliveries that failed or were finished after a time
with kept as (
    update deliveries d
    set part = -1
    where d.part = $1 and (d.status <> 'delivered' or d.finished_at >= $2)
    returning d.project_id, d.customer_id, d.webhook_key, d.sequence
),
moved as (
    update attempts a
    set part = -1
    from kept k
    where a.project_id = k.project_id and a.customer_id = k.customer_id and a.webhook_key = k.webhook_key
        and a.sequence = k.sequence and a.part = $1
)
select count(*) from kept;

-- name: drop_part
-- drop the deliveries and attempts of a part
select drop_part($1, $2);
