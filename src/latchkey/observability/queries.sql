-- name: watch_webhooks
-- webhooks by state, over all projects
select case
        when not w.enabled then 'disabled'
        when w.paused_at is not null then 'paused'
        when w.open_until > $1 then 'circuit_open'
        when w.failing_since is not null then 'failing'
        else 'active'
    end as state, count(*) as webhooks
from webhooks w
where w.deleted_at is null
group by 1;

-- name: watch_failing_webhooks
-- since when webhooks fail or are paused, the longest first
select w.id, least(w.failing_since, w.paused_at) as since
from webhooks w
where w.deleted_at is null and w.enabled and (w.failing_since is not null or w.paused_at is not null)
order by 2
limit $1;

-- name: watch_queue
-- for each webhook: what waits (lanes are counted up to a limit, $2), since when, and since when it could have been sent
-- The laterals with a limit read the first entries of an index: a million waiting deliveries cost no more than the limit.
select w.id as webhook_id, counted.lanes, counted.waiting, counted.oldest_at,
    case
        when w.enabled and w.paused_at is null and (w.open_until is null or w.open_until <= $1)
            -- What waits for a slow receiver, or for the first answer of one that failed, could not have been sent.
            and counted.busy < case when w.open_until is null then least(w.in_flight_limit, $2) else 1 end
        then counted.due
    end as due_at
from webhooks w
cross join lateral (
    select l.next_at from lanes l where l.webhook_key = w.key order by l.next_at limit 1
) as head
cross join lateral (
    select count(*) as lanes, sum(f.waiting)::bigint as waiting, min(coalesce(f.tried_at, f.next_at)) as oldest_at,
        count(*) filter (where f.lease_until > $1) as busy,
        min(f.next_at) filter (where f.lease_until <= $1 and f.next_at <= $1) as due
    from (
        select l.waiting, l.tried_at, l.next_at, l.lease_until
        from lanes l
        where l.webhook_key = w.key
        order by l.next_at
        limit $2
    ) as f
) as counted
where w.deleted_at is null
order by head.next_at
limit $3;

-- name: watch_queue_estimate
-- about how many customers have waiting deliveries, as the last vacuum or analyze saw it
select greatest(c.reltuples, 0)::bigint from pg_class c where c.oid = (select l.tableoid from lanes l limit 1);

-- name: watch_journal
-- notifications of stores: those that wait and those that failed, up to a limit, and when the first was to be processed
select
    (select count(*) from (select 1 from store_notifications where status = 'waiting' order by next_at limit $1) as w)
        as waiting,
    (select count(*) from (select 1 from store_notifications where status = 'failed' limit $1) as f) as failed,
    (select min(next_at) from store_notifications where status = 'waiting') as due_at;

-- name: watch_lists
-- of the customer lists: how many events are not in them yet, and when the first of these was committed
-- Customers that are not counted yet are counted up to $1 of each project, for 100 projects at most.
select greatest(heads.position - rolled.position, 0) as behind, oldest.committed_at as oldest_at, new.customers
from (select coalesce(sum(position), 0)::bigint as position from feeds) as heads,
    (select coalesce(sum(position), 0)::bigint as position from facet_rolls) as rolled,
    lateral (
        select min(e.committed_at) as committed_at
        from (
            select r.project_id, r.position
            from facet_rolls r
            cross join lateral (select f.position from feeds f where f.project_id = r.project_id limit 1) as head
            where head.position > r.position
            limit 100
        ) as late
        cross join lateral (
            select n.committed_at
            from events n
            where n.project_id = late.project_id and n.position > late.position
            order by n.position
            limit 1
        ) as e
    ) as oldest,
    lateral (
        select coalesce(sum(c.customers), 0)::bigint as customers
        from (select r.project_id, r.counted from facet_rolls r limit 100) as one
        cross join lateral (
            select count(*) as customers
            from (
                select from customers c
                where c.project_id = one.project_id and c.id > one.counted
                order by c.id
                limit $1
            ) as counted
        ) as c
    ) as new;
