-- name: claim_lanes
-- claim the first deliveries of due lanes: for each webhook as many as requested and as its limit allows, oldest first
-- Only the first lanes up to the limit are examined, including those under way: that enforces the limit over all workers,
-- and makes a claim cost the same for ten waiting lanes and for a million. The laterals with a limit force one index
-- lookup for each row, whatever the planner assumes of tables that are empty at one time and huge at another.
-- A lane is looked up once; after that by its ctid, which needs no index. A lane that another transaction changes at the
-- same time is left out. That transaction announces its change when it commits.
-- The lane says in which partition its deliveries begin, and a delivery's event is never in an earlier one: older
-- partitions are not touched.
with picked as (
    select w.key, w.version, free.lane, $5 + row_number() over () as token
    from unnest($1::bigint[], $2::integer[]) as asked (key, amount)
    join webhooks w on w.key = asked.key
    cross join lateral (
        select l.lane
        from (
            select f.ctid as lane, f.lease_until
            from lanes f
            where f.webhook_key = w.key and f.next_at <= $3
            order by f.next_at
            -- After the circuit was open, only one delivery: the probe.
            limit case when w.open_until is null then w.in_flight_limit else 1 end
        ) as first
        cross join lateral (
            select i.ctid as lane
            from lanes i
            where i.ctid = first.lane and i.lease_until <= $3 and i.next_at <= $3
            limit 1
            for update skip locked
        ) as l
        where first.lease_until <= $3
        limit asked.amount
    ) as free
    where w.enabled and w.deleted_at is null and w.paused_at is null and (w.open_until is null or w.open_until <= $3)
    limit 500
),
leased as (
    update lanes l
    set lease_until = $4, token = p.token
    from picked p
    where l.ctid = p.lane
    returning l.project_id, l.customer_id, l.webhook_key, l.aside, p.version, l.waiting, l.done, l.tries,
        l.tried_at, l.token, l.partition
)
select l.project_id, l.customer_id, l.webhook_key, l.aside, l.version as webhook_version, l.waiting, l.done, l.tries,
    l.tried_at, head.sequence, head.event_id, head.attempts, happened.body as event, l.token, head.dialect,
    head.partition
from leased l
left join lateral (
    select d.sequence, d.event_id, d.attempts, d.dialect, d.partition
    from deliveries d
    where d.project_id = l.project_id and d.customer_id = l.customer_id and d.webhook_key = l.webhook_key
        and d.sequence > l.done and d.status = 'waiting' and (l.aside = 0 and not d.aside or d.sequence = l.aside)
        and d.partition >= l.partition
    order by d.sequence
    limit 1
) as head on true
left join lateral (
    select e.body
    from events e
    where e.id = head.event_id and e.project_id = l.project_id and e.partition >= head.partition
    limit 1
) as happened on true;

-- name: release_lanes
-- release lanes that were claimed and not sent
update lanes l
set lease_until = 0, token = 0
from (
    select h.project_id, h.customer_id, h.webhook_key, h.aside
    from unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
        as n (project_id, customer_id, webhook_key, aside, token)
    join lanes h using (project_id, customer_id, webhook_key, aside, token)
    order by h.project_id, h.customer_id, h.webhook_key, h.aside
    for update of h
) as held
where l.project_id = held.project_id and l.customer_id = held.customer_id and l.webhook_key = held.webhook_key
    and l.aside = held.aside;

-- name: release_ended
-- release lanes that processes had claimed which have ended; how many
with held as (
    select h.project_id, h.customer_id, h.webhook_key, h.aside
    from lanes h
    where h.lease_until > 0 and h.token >> 31 = any($1::bigint[])
    order by h.project_id, h.customer_id, h.webhook_key, h.aside
    for update of h
),
released as (
    update lanes l
    set lease_until = 0, token = 0
    from held
    where l.project_id = held.project_id and l.customer_id = held.customer_id and l.webhook_key = held.webhook_key
        and l.aside = held.aside
    returning 1
)
select count(*) from released;

-- name: record_attempts
-- record attempts whose lease still holds: the attempt, its delivery and the lane's next step
-- next_at is null when the first delivery is finished (delivered or failed for good); with others_at it leaves the lane,
-- which continues then. The lock comes first and returns the current lane, so that deliveries queued meanwhile count.
-- Most responses are alike: $19 and $20 have each only once, $16 and $17 are their places.
with result as (
    select n.*, ($19::json[])[n.headers_at] as response_headers, ($20::bytea[])[n.body_at] as response_body
    from unnest(
        $1::text::text[], $2::text::bigint[], $3::text::bigint[], $4::text::bigint[], $5::text::bigint[],
        $6::text::bigint[], $7::text::bigint[], $8::text::integer[], $9::text::bigint[], $10::text::integer[],
        $11::text::bigint[], $12::text::bigint[], $13::text::text[], $14::text::integer[], $15::json[],
        $16::text::integer[], $17::text::integer[], $18::text::integer[]
    ) with ordinality as n (
        project_id, customer_id, webhook_key, aside, token, done, sequence, number, at, took_ms,
        next_at, others_at, error, status, request_headers,
        headers_at, body_at, partition, place
    )
),
held as (
    select r.*, l.waiting, l.tries, l.tried_at, r.next_at is null or r.others_at is not null as leaves
    from result r
    join lanes l using (project_id, customer_id, webhook_key, aside, token)
    order by l.project_id, l.customer_id, l.webhook_key, l.aside
    for update of l
),
logged as (
    insert into attempts (
        project_id, customer_id, webhook_key, sequence, number, at, took_ms, error, status, request_headers,
        response_headers, response_body, partition
    )
    select project_id, customer_id, webhook_key, sequence, number, at, took_ms, error, status, request_headers,
        response_headers, response_body, partition
    from held
),
judged as (
    update deliveries d
    set status = case when h.next_at is not null then 'waiting' when h.error is null then 'delivered' else 'failed' end,
        aside = d.aside or h.others_at is not null,
        attempts = h.number,
        finished_at = case when h.next_at is null then h.at + h.took_ms end,
        response_status = h.status,
        error = h.error
    from held h
    where d.project_id = h.project_id and d.customer_id = h.customer_id and d.webhook_key = h.webhook_key
        and d.sequence = h.sequence and d.partition = h.partition
),
emptied as (
    delete from lanes l
    using held h
    where l.project_id = h.project_id and l.customer_id = h.customer_id and l.webhook_key = h.webhook_key
        and l.aside = h.aside and h.leaves and h.waiting <= 1
),
moved as (
    update lanes l
    set waiting = l.waiting - h.leaves::integer,
        -- Unless a replay has reset it meanwhile.
        done = case when h.leaves and l.done = h.done then h.sequence else l.done end,
        next_at = coalesce(h.others_at, h.next_at, $21),
        tries = case when h.leaves then 0 else l.tries + 1 end,
        tried_at = case when h.leaves then null else least(l.tried_at, h.at) end,
        lease_until = 0,
        token = 0
    from held h
    where l.project_id = h.project_id and l.customer_id = h.customer_id and l.webhook_key = h.webhook_key
        and l.aside = h.aside and not (h.leaves and h.waiting <= 1)
),
stepped_aside as (
    insert into lanes (project_id, customer_id, webhook_key, aside, waiting, done, next_at, tries, tried_at, partition)
    select project_id, customer_id, webhook_key, sequence, 1, sequence - 1, next_at, tries + 1, least(tried_at, at),
        partition
    from held
    where others_at is not null
    on conflict do nothing
)
select h.place, h.waiting > 1 and h.leaves and h.others_at is null as more,
    w.failures > 0 or w.failing_since is not null or w.announced_at is not null as troubled
from held h
join webhooks w on w.key = h.webhook_key
-- Nobody waits for the disk: what a crash of PostgreSQL undoes here is sent again, as if the answer had not come.
where set_config('synchronous_commit', 'off', true) is not null;

-- name: due_webhooks
-- when each webhook next has something to send: now, at a retry, when a lease runs out or when its circuit allows a probe
select w.key, greatest(due.at, w.open_until) as at
from webhooks w
cross join lateral (
    select min(greatest(first.next_at, first.lease_until)) as at
    from (
        select l.next_at, l.lease_until
        from lanes l
        where l.webhook_key = w.key
        order by l.next_at
        limit w.in_flight_limit + 1
    ) as first
) as due
where w.enabled and w.deleted_at is null and w.paused_at is null and due.at is not null
    and ($1::bigint[] is null or w.key = any($1));

-- name: list_partitions
-- the partitions whose deliveries have not been dropped, and the one that keeps what outlives them
select partition as number, opened_at from partitions where dropped_at is null order by partition;

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

-- name: forget_replays
-- delete the finished replays of a deleted webhook
delete from replays where webhook_key = $1;

-- name: forget_empty_webhook
-- delete a deleted webhook of which nothing is left elsewhere
delete from webhooks w where w.key = $1 and w.deleted_at is not null;
