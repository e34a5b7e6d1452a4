-- name: lock_lanes
-- lock the lanes of these customers at a webhook, in the same order everywhere
select customer_id, aside
from lanes
where project_id = $1 and webhook_key = $2 and customer_id = any($3::bigint[]) and aside = any($4::bigint[])
order by project_id, customer_id, webhook_key, aside
for update;

-- name: hurry_lanes
-- send what waits for a retry at a webhook now, unless it is under way; as many lanes as asked for
-- Locked lanes are left out: this never waits while it holds locks, so their order does not matter.
update lanes
set next_at = $3
where ctid = any(array(
    select l.ctid from lanes l
    where l.project_id = $1 and l.webhook_key = $2 and l.next_at > $3 and l.lease_until <= $3
    order by l.next_at
    limit $4
    for update skip locked
))
returning customer_id;

-- name: close_circuit
-- let a webhook that failed again and again send everything that is due, not only a probe
update webhooks set open_until = null where key = $1 and open_until is not null;

-- name: hurry_deliveries
-- send these deliveries now if they have failed and wait for a retry
with retrying as (
    select d.customer_id, case when d.aside then d.sequence else 0 end as aside
    from unnest($4::bigint[], $5::bigint[]) as n (customer_id, sequence)
    join deliveries d on d.project_id = $1 and d.customer_id = n.customer_id and d.webhook_key = $2
        and d.sequence = n.sequence and d.status = 'waiting'
),
hurried as (
    update lanes l
    set next_at = least(l.next_at, $3)
    from retrying r
    where l.project_id = $1 and l.customer_id = r.customer_id and l.webhook_key = $2 and l.aside = r.aside
        and l.lease_until <= $3
)
select count(*) from retrying;

-- name: start_replay
-- create a replay
insert into replays (
    id, project_id, webhook_key, since_ms, until_ms, status, event_types, created_at, position, last_position,
    first_position
)
select $3, w.project_id, w.key, $4, $5, $6, $7, $8, $9, $10, $9
from webhooks w
where w.project_id = $1 and w.id = $2 and w.deleted_at is null
returning id;

-- name: outcomes_of_replay
-- the outcomes of a replay's deliveries
select count(*) filter (where d.status = 'delivered') as delivered, count(*) filter (where d.status = 'failed') as failed
from deliveries d
where d.replay_id = $2 and $1::text is not null;

-- name: stop_replay
-- stop a replay, also one that has queued everything or was stopped before
update replays r
set stopped_at = coalesce(r.stopped_at, $4), finished_at = coalesce(r.finished_at, $4)
from webhooks w, replays before
where r.project_id = $1 and w.key = r.webhook_key and w.id = $2 and r.id = $3 and before.id = r.id
returning r.webhook_key, before.stopped_at is not null as again;

-- name: replay_is_queued
-- whether deliveries of a replay are still pending
select exists (select from deliveries d where d.replay_id = $2 and d.status = 'waiting' and $1::text is not null);

-- name: unqueue_replayed
-- take back deliveries that a stopped replay has queued, as many as asked for; also from lanes under way
-- A lane with more deliveries is claimed again at once: without that, it would be sent whole.
-- Each gets the outcome that it had before. One that the replay created is deleted: it has neither an attempt nor an
-- error. What a restore held has an error without an attempt.
with queued as (
    select d.project_id, d.customer_id, d.webhook_key, d.sequence, d.partition,
        case when d.aside then d.sequence else 0 end as aside
    from deliveries d
    where d.project_id = $1 and d.webhook_key = $2 and d.replay_id = $3 and d.status = 'waiting'
    limit $5
),
held as materialized (
    select q.*, l.waiting
    from queued q
    join lanes l using (project_id, customer_id, webhook_key, aside)
    order by l.project_id, l.customer_id, l.webhook_key, l.aside
    for update of l
),
restored as (
    update deliveries d
    set status = case when d.error is null then 'delivered' else 'failed' end, replay_id = null,
        finished_at = coalesce((
            select a.at + a.took_ms
            from attempts a
            where a.project_id = d.project_id and a.customer_id = d.customer_id and a.webhook_key = d.webhook_key
                and a.sequence = d.sequence and a.partition = d.partition
            order by a.number desc
            limit 1
        ), $4)
    from held h
    where d.project_id = h.project_id and d.customer_id = h.customer_id and d.webhook_key = h.webhook_key
        and d.sequence = h.sequence and d.partition = h.partition and d.status = 'waiting'
        and (d.attempts > 0 or d.error is not null)
        -- Not if a late record has given it a lane of its own since this statement began.
        and d.aside = (h.aside > 0)
    returning h.*
),
removed as (
    delete from deliveries d
    using held h
    where d.project_id = h.project_id and d.customer_id = h.customer_id and d.webhook_key = h.webhook_key
        and d.sequence = h.sequence and d.partition = h.partition and d.status = 'waiting'
        and d.attempts = 0 and d.error is null and d.aside = (h.aside > 0)
    returning h.*
),
gone as (
    select project_id, customer_id, webhook_key, aside, count(*) as amount, waiting <= count(*) as is_last
    from (select * from restored union all select * from removed) as g
    group by project_id, customer_id, webhook_key, aside, waiting
),
emptied as (
    delete from lanes l
    using gone g
    where l.project_id = g.project_id and l.customer_id = g.customer_id and l.webhook_key = g.webhook_key
        and l.aside = g.aside and g.is_last
),
shortened as (
    update lanes l
    -- The token goes too: with it, a worker could record what was taken back, and drop the lane. What is under way in the
    -- lane and not of the replay is sent again.
    set waiting = l.waiting - g.amount, tries = 0, tried_at = null, next_at = least(l.next_at, $4), lease_until = 0,
        token = 0
    from gone g
    where l.project_id = g.project_id and l.customer_id = g.customer_id and l.webhook_key = g.webhook_key
        and l.aside = g.aside and not g.is_last
)
select coalesce(sum(amount), 0)::bigint from gone;

-- name: unfinished_replays
-- whether there is a replay to work on
select exists (select from replays where finished_at is null);

-- name: take_replay
-- the oldest unfinished replay that no worker has locked
select r.id, r.project_id, r.webhook_key, r.since_ms, r.until_ms, r.status, r.event_types, r.position, r.last_position,
    w.environment, w.event_types as webhook_event_types, w.app_id, w.dialect, w.deleted_at is not null as webhook_deleted
from replays r
join webhooks w on w.key = r.webhook_key
where r.finished_at is null
order by r.created_at
limit 1
for update of r skip locked;

-- name: events_to_replay
-- the next range of the feed: where it ends, and the customers whose lanes may get something from it
with stretch as (
    select e.position, e.customer_id, e.sequence, e.id, e.type, e.committed_at,
        -- Only read for a webhook whose dialect names this event differently.
        $13::boolean and e.type = 'INITIAL_PURCHASE'
            and (
                coalesce((e.body ->> 'is_trial_conversion')::boolean, false)
                or coalesce((e.body ->> 'renewal_number')::integer, 0) > 0
            ) as continues,
        e.committed_at >= $6 and e.committed_at < $7 and ($8::text[] = '{}' or e.type = any($8))
            and ($9::text is null or $9 = lower(e.environment))
            and ($10::text[] = '{}' or e.type = any($10))
            and ($11::text is null or $11 = e.app_id) as wanted
    from events e
    where e.project_id = $1 and e.position > $3 and e.position <= $4
    order by e.position
    limit $5
)
select s.position, s.customer_id, s.sequence, s.id, s.type, s.committed_at, s.continues,
    s.wanted and case when $12 = 'failed' then d.status = 'failed' or d.status = 'waiting' and d.error is not null
        else d.status is distinct from 'waiting' end as wanted,
    d.status = 'waiting' as retrying
from stretch s
left join deliveries d on d.project_id = $1 and d.customer_id = s.customer_id and d.webhook_key = $2
    and d.sequence = s.sequence
order by s.position;

-- name: requeue_deliveries
-- queue these events for a webhook again: for a replay ($3) in order for each customer, without one each in a lane of its
-- own. Deliveries that are already pending are unchanged
-- From a closed partition a delivery moves to the one that is kept, with its attempts: nothing in a closed one becomes
-- pending again, so that one without pending deliveries can be dropped. A delivery that a replay misses (it was never sent
-- to this webhook, or was pruned) is created in the one that is kept: there, no two replays can create it twice.
-- Keys are compared with columns, not with parameters: the plan for an empty table would otherwise look up the project and
-- the webhook alone.
with asked as materialized (
    select $1::text as project_id, $2::bigint as webhook_key, n.*, p.kept, p.newest
    from unnest($5::bigint[], $6::bigint[], $7::text[], $8::text[], $9::bigint[])
        as n (customer_id, sequence, event_id, type, committed_at)
    cross join (select min(p.partition) as kept, max(p.partition) as newest from partitions p) as p
    order by n.customer_id, n.sequence
),
known as materialized (
    select n.*, d.partition as stored
    from asked n
    left join lateral (
        select k.partition from deliveries k
        where k.project_id = $1 and k.customer_id = n.customer_id and k.webhook_key = $2 and k.sequence = n.sequence
        limit 1
    ) as d on true
),
again as (
    update deliveries d
    set status = 'waiting', aside = $3::text is null, finished_at = null, replay_id = coalesce($3, d.replay_id),
        dialect = nullif($10, 'latchkey'),
        partition = case when d.partition = n.newest then d.partition else n.kept end
    from known n
    where d.project_id = n.project_id and d.customer_id = n.customer_id and d.webhook_key = n.webhook_key
        and d.sequence = n.sequence and d.partition = n.stored and d.status <> 'waiting'
    returning d.project_id, d.customer_id, d.webhook_key, d.sequence, d.partition
),
moved as (
    update attempts a
    set partition = g.partition
    from again g
    where a.project_id = g.project_id and a.customer_id = g.customer_id and a.webhook_key = g.webhook_key
        and a.sequence = g.sequence and a.partition <> g.partition
),
fresh as (
    insert into deliveries (
        project_id, customer_id, webhook_key, sequence, event_id, event_type, created_at, replay_id, dialect, partition
    )
    select $1, n.customer_id, $2, n.sequence, n.event_id, n.type, n.committed_at, $3, nullif($10, 'latchkey'), n.kept
    from known n
    where n.stored is null and $3 is not null
    order by n.customer_id, n.sequence
    on conflict do nothing
    returning customer_id, sequence, partition
),
taken as (
    select customer_id, sequence, partition from again
    union all
    select customer_id, sequence, partition from fresh
),
queued as (
    insert into lanes as l (project_id, customer_id, webhook_key, aside, waiting, done, next_at, partition)
    select $1, customer_id, $2, aside, count(*), min(sequence) - 1, $4, min(partition)
    from (select *, case when $3 is null then sequence else 0 end as aside from taken) as t
    group by customer_id, aside
    order by customer_id, aside
    on conflict (project_id, customer_id, webhook_key, aside) do update
    set waiting = l.waiting + excluded.waiting,
        -- Always lower, so that recording what is under way does not skip what was added before it.
        done = least(l.done - 1, excluded.done),
        partition = least(l.partition, excluded.partition),
        -- An older delivery goes first now; it has its own retries.
        tries = case when excluded.done <= l.done and l.lease_until <= $4 then 0 else l.tries end,
        tried_at = case when excluded.done <= l.done and l.lease_until <= $4 then null else l.tried_at end,
        next_at = case when excluded.done <= l.done then least(l.next_at, $4) else l.next_at end
)
select count(*) from taken;

-- name: advance_replay
-- store a replay's progress; a stopped one takes back what it has queued
update replays
set position = coalesce($2, position), scheduled = scheduled + $3, finished_at = coalesce($4, finished_at),
    hurried = hurried + $5
where id = $1;
