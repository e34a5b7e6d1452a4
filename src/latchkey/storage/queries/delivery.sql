-- name: claim_lanes
-- claim the first deliveries of due lanes: for each webhook as many as requested and as its limit allows, oldest first
-- Only the first lanes up to the limit are examined, including those under way: that enforces the limit over all workers,
-- and makes a claim cost the same for ten waiting lanes and for a million. The laterals with a limit force one index
-- lookup for each row, whatever the planner assumes of tables that are empty at one time and huge at another.
with picked as (
    select w.key, w.version, free.*
    from unnest($1::bigint[], $2::integer[]) as asked (key, amount)
    join webhooks w on w.key = asked.key
    cross join lateral (
        select l.*
        from (
            select f.project_id, f.customer_id, f.aside, f.lease_until
            from lanes f
            where f.webhook_key = w.key and f.next_at <= $3
            order by f.next_at
            -- After the circuit was open, only one delivery: the probe.
            limit case when w.open_until is null then w.in_flight_limit else 1 end
        ) as first
        cross join lateral (
            select i.project_id, i.customer_id, i.aside
            from lanes i
            where i.project_id = first.project_id and i.customer_id = first.customer_id and i.webhook_key = w.key
                and i.aside = first.aside and i.lease_until <= $3 and i.next_at <= $3
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
    set lease_until = $4, token = $5
    from picked p
    where l.project_id = p.project_id and l.customer_id = p.customer_id and l.webhook_key = p.key and l.aside = p.aside
    returning l.project_id, l.customer_id, l.webhook_key, l.aside, l.waiting, l.done, l.tries, l.tried_at, p.version
)
select l.project_id, l.customer_id, l.webhook_key, l.aside, l.version, l.waiting, l.done, l.tries, l.tried_at,
    head.sequence, head.event_id, head.attempts, head.dialect, happened.body
from leased l
left join lateral (
    select d.sequence, d.event_id, d.attempts, d.dialect
    from deliveries d
    where d.project_id = l.project_id and d.customer_id = l.customer_id and d.webhook_key = l.webhook_key
        and d.sequence > l.done and d.status = 'waiting' and (l.aside = 0 and not d.aside or d.sequence = l.aside)
    order by d.sequence
    limit 1
) as head on true
left join lateral (
    select e.body from events e where e.id = head.event_id and e.project_id || '' = l.project_id limit 1
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

-- name: record_last_deliveries
-- record deliveries that succeeded and were the last in their lanes, as most are: delete the lane, update no row twice
-- A lane that has grown meanwhile, or whose lease was lost, is left unchanged: record_attempts handles it.
with result as materialized (
    select w.project_id, n.*, w.troubled
    from unnest(
        $1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::integer[], $7::bigint[],
        $8::integer[], $9::json[], $10::json[], $11::bytea[]
    ) with ordinality as n (
        customer_id, webhook_key, aside, token, sequence, number, at, took_ms, request_headers,
        response_headers, response_body, place
    )
    cross join lateral (
        select h.project_id, h.failures > 0 or h.failing_since is not null or h.announced_at is not null as troubled
        from webhooks h
        where h.key = n.webhook_key
        limit 1
    ) as w
    order by w.project_id, n.customer_id, n.webhook_key, n.aside
),
emptied as (
    delete from lanes l
    using result r
    where l.project_id = r.project_id and l.customer_id = r.customer_id and l.webhook_key = r.webhook_key
        and l.aside = r.aside and l.token = r.token and l.waiting <= 1
    returning r.*
),
logged as (
    insert into attempts (
        project_id, customer_id, webhook_key, sequence, number, at, took_ms, status, request_headers, response_headers,
        response_body
    )
    select project_id, customer_id, webhook_key, sequence, number, at, took_ms, 200, request_headers,
        response_headers, response_body
    from emptied
),
judged as (
    update deliveries d
    set status = 'delivered', attempts = e.number, finished_at = e.at + e.took_ms, response_status = 200, error = null
    from emptied e
    where d.project_id = e.project_id and d.customer_id = e.customer_id and d.webhook_key = e.webhook_key
        and d.sequence = e.sequence
)
select place, troubled from emptied;

-- name: record_attempts
-- record attempts whose lease still holds: the attempt, its delivery and the lane's next step
-- next_at is null when the first delivery is finished (delivered or failed for good); with others_at it leaves the lane,
-- which continues then. The lock comes first and returns the current lane, so that deliveries queued meanwhile count.
with result as (
    select *
    from unnest(
        $1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::integer[],
        $9::bigint[], $10::integer[], $11::bigint[], $12::bigint[], $13::text[], $14::integer[], $15::json[],
        $16::json[], $17::bytea[]
    ) with ordinality as n (
        project_id, customer_id, webhook_key, aside, token, done, sequence, number,
        at, took_ms, next_at, others_at, error, status, request_headers,
        response_headers, response_body, place
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
        response_headers, response_body
    )
    select project_id, customer_id, webhook_key, sequence, number, at, took_ms, error, status, request_headers,
        response_headers, response_body
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
        and d.sequence = h.sequence
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
        next_at = coalesce(h.others_at, h.next_at, $18),
        tries = case when h.leaves then 0 else l.tries + 1 end,
        tried_at = case when h.leaves then null else coalesce(l.tried_at, h.at) end,
        lease_until = 0,
        token = 0
    from held h
    where l.project_id = h.project_id and l.customer_id = h.customer_id and l.webhook_key = h.webhook_key
        and l.aside = h.aside and not (h.leaves and h.waiting <= 1)
),
stepped_aside as (
    insert into lanes (project_id, customer_id, webhook_key, aside, waiting, done, next_at, tries, tried_at)
    select project_id, customer_id, webhook_key, sequence, 1, sequence - 1, next_at, tries + 1, coalesce(tried_at, at)
    from held
    where others_at is not null
    on conflict do nothing
)
select h.place, h.waiting > 1 and h.leaves and h.others_at is null as more,
    w.failures > 0 or w.failing_since is not null or w.announced_at is not null as troubled
from held h
join webhooks w on w.key = h.webhook_key;

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

-- name: measure_queue
-- how many deliveries are pending for each webhook, and how old the oldest is
select w.id, sum(l.waiting) as waiting, min(coalesce(l.tried_at, l.next_at)) as oldest
from lanes l
join webhooks w on w.key = l.webhook_key
group by w.id;
