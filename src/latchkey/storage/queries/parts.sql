-- name: list_partitions
-- the partitions whose deliveries have not been dropped, and the one that keeps what outlives them
select partition, opened_at from partitions where dropped_at is null order by partition;

-- name: database_time
-- the time of the database's machine
select (extract(epoch from clock_timestamp()) * 1000)::bigint;

-- name: lock_partitions
-- only one process at a time opens and drops partitions; reading them goes on
lock table partitions in share row exclusive mode;

-- name: size_of_partition
-- the bytes of a partition's deliveries and attempts, and of the partition that its events are in, with indexes
select pg_total_relation_size(to_regclass('deliveries_' || $1::integer))
        + pg_total_relation_size(to_regclass('attempts_' || $1)) as deliveries,
    pg_total_relation_size(to_regclass('events_' || $1 / 1000)) as events;

-- name: open_partition
-- create a new partition of each table, unless another process has
select open_partition($1, $2) where not exists (select from partitions where partition >= $1);

-- name: partition_is_pending
-- whether a delivery of a partition is still pending
select exists (select from deliveries where partition = $1 and status = 'waiting');

-- name: keep_deliveries
-- move what must outlive its partition to the one that is kept: deliveries that failed or were finished after a time
with kept as (
    update deliveries d
    set partition = -1
    where d.partition = $1 and (d.status <> 'delivered' or d.finished_at >= $2)
    returning d.project_id, d.customer_id, d.webhook_key, d.sequence
),
moved as (
    update attempts a
    set partition = -1
    from kept k
    where a.project_id = k.project_id and a.customer_id = k.customer_id and a.webhook_key = k.webhook_key
        and a.sequence = k.sequence and a.partition = $1
)
select count(*) from kept;

-- name: drop_partition
-- drop the deliveries and attempts of a partition
select drop_partition($1, $2);
