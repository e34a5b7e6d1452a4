-- name: look_at_figures
-- whether any project's figures are behind its feed: two sums, because a feed never is behind its figures
select
    heads.position > rolled.position or exists (select from figure_marks) as behind,
    heads.projects > rolled.projects as unstarted,
    coalesce(pg_sequence_last_value(pg_get_serial_sequence('customers', 'id')::regclass), 0) as newest
from (select coalesce(sum(position), 0) as position, count(*) as projects from feeds) as heads,
    (select coalesce(sum(position), 0) as position, count(*) as projects from figure_rolls) as rolled;

-- name: start_figures
-- start the figures of new projects at the beginning of their feeds
insert into figure_rolls (project_id)
select f.project_id from feeds f
where ($1::text is null or f.project_id = $1)
    and not exists (select from figure_rolls r where r.project_id = f.project_id)
order by f.project_id
on conflict do nothing;

-- name: take_figures_behind
-- lock the progress of the next projects that are behind, by id, unless another process holds it
select r.project_id, r.position, r.rolled_to, r.counted, r.mark_id, r.mark_xid, r.marked_at
from figure_rolls r
cross join lateral (select f.position from feeds f where f.project_id = r.project_id limit 1) as head
where r.project_id > $1
    and (
        head.position > r.position
        or exists (select from figure_marks m where m.project_id = r.project_id)
        or $3 and (r.marked_at is null or abs($4 - r.marked_at) >= $5)
            and exists (select from customers c where c.project_id = r.project_id and c.id > r.counted)
    )
order by r.project_id
limit $2
for update of r skip locked;

-- name: take_figures
-- lock a project's progress, unless another process holds it
select project_id, position, rolled_to, counted, mark_id, mark_xid, marked_at
from figure_rolls where project_id = $1
for update skip locked;

-- name: await_figures
-- lock a project's progress, waiting for another process
select project_id, position, rolled_to, counted, mark_id, mark_xid, marked_at
from figure_rolls where project_id = $1
for update;

-- name: figures_batch
-- for each of these projects: its next events and marks (which are deleted), the customers they name, its settings
-- A statement of its own after the lock: its snapshot must be newer than what another process has written. Customers are
-- all from this snapshot; merged and erased ones are missing.
with held as materialized (
    select * from unnest($1::text[], $2::bigint[]) as h (project_id, position)
),
taken as (
    -- By where the row is stored: a plan made while the table was known to be empty would go through all marks.
    delete from figure_marks m
    where m.ctid = any(array(
        select first.ctid
        from held h
        cross join lateral (
            select k.ctid from figure_marks k where k.project_id = h.project_id order by k.project_id, k.id limit $3
        ) as first
    ))
    returning m.project_id, m.customer_id
)
select h.project_id, p.catalog_version, (select x.version from exchange_rate_readings x where x.id = 1) as rates_version,
    told.events, told.position, told.committed_at, marked.marks, found.keys, found.states,
    coalesce(newest.id, 0) as newest,
    pg_current_xact_id()::text::bigint as xid,
    pg_snapshot_xmin(pg_current_snapshot())::text::bigint as oldest_xid
from held h
cross join lateral (select q.catalog_version from projects q where q.id = h.project_id limit 1) as p
cross join lateral (
    select count(*) as events, max(e.position) as position, max(e.committed_at) as committed_at,
        array_agg(e.customer_id) as customers
    from (
        select n.position, n.customer_id, n.committed_at from events n
        where n.project_id = h.project_id and n.position > h.position
        order by n.position
        limit $3
    ) as e
) as told
cross join lateral (
    select count(*) as marks, array_agg(t.customer_id) as customers from taken t where t.project_id = h.project_id
) as marked
cross join lateral (
    select array_agg(c.id) as keys, array_agg(c.state) as states from customers c
    where c.project_id = h.project_id and c.id = any(told.customers || marked.customers)
) as found
left join lateral (
    select c.id from customers c where c.project_id = h.project_id order by c.id desc limit 1
) as newest on true
order by h.project_id;

-- name: figure_lines_of
-- the stored lines of these purchases
select asked.project_id, asked.purchase, l.*
from unnest($1::text[], $2::uuid[]) as asked (project_id, purchase)
cross join lateral (
    select k.at, k.currency, k.environment,
        k.active, k.trials, k.mrr, k.payments, k.paid, k.refunds, k.refunded, k.expired, k.resubscribed,
        k.trials_started, k.trials_kept, k.trials_converted, k.newcomers,
        k.converted, k.paid_usd, k.refunded_usd, k.active_usd, k.mrr_usd
    from figure_lines k
    where k.project_id = asked.project_id and k.purchase = asked.purchase
    -- The order and the limit (there are never so many) keep the lookup by key, also with a plan made while the table was
    -- known to be empty: that one would go through all lines for each purchase.
    order by k.project_id, k.purchase, k.at, k.currency
    limit 1000000
) as l;

-- name: write_figures
-- write a batch: delete lines of purchases, add or replace others, add the differences to the days, store the progress
with gone as (
    delete from figure_lines l
    where l.ctid = any(array(
        select found.ctid
        from unnest(
            $1::text[], $2::uuid[], $3::bigint[], $4::text[]
        ) as n (project_id, purchase, at, currency)
        cross join lateral (
            -- Expressions, so that the lines of the purchase are found by its key whatever the plan, and then compared.
            select k.ctid from figure_lines k
            where k.project_id = n.project_id and k.purchase = n.purchase
                and k.at + 0 = n.at and k.currency || '' = n.currency
            order by k.project_id, k.purchase, k.at, k.currency
            limit 1
        ) as found
    ))
),
lines as (
    insert into figure_lines (
        project_id, purchase, at, currency, environment,
        active, trials, mrr, payments, paid, refunds, refunded, expired, resubscribed, trials_started, trials_kept,
        trials_converted, newcomers, converted, paid_usd, refunded_usd, active_usd, mrr_usd
    )
    select * from unnest(
        $5::text[], $6::uuid[], $7::bigint[], $8::text[], $9::text[], $10::smallint[], $11::smallint[],
        $12::bigint[], $13::smallint[], $14::bigint[], $15::smallint[], $16::bigint[], $17::smallint[],
        $18::smallint[], $19::smallint[], $20::smallint[], $21::smallint[], $22::smallint[], $23::smallint[],
        $24::bigint[], $25::bigint[], $26::smallint[], $27::bigint[]
    )
    on conflict (project_id, purchase, at, currency) do update set
        environment = excluded.environment,
        active = excluded.active,
        trials = excluded.trials,
        mrr = excluded.mrr,
        payments = excluded.payments,
        paid = excluded.paid,
        refunds = excluded.refunds,
        refunded = excluded.refunded,
        expired = excluded.expired,
        resubscribed = excluded.resubscribed,
        trials_started = excluded.trials_started,
        trials_kept = excluded.trials_kept,
        trials_converted = excluded.trials_converted,
        newcomers = excluded.newcomers,
        converted = excluded.converted,
        paid_usd = excluded.paid_usd,
        refunded_usd = excluded.refunded_usd,
        active_usd = excluded.active_usd,
        mrr_usd = excluded.mrr_usd
),
days as (
    insert into figure_days as d (
        project_id, environment, day, currency,
        active, trials, mrr, payments, paid, refunds, refunded, expired, resubscribed, trials_started, trials_kept,
        trials_converted, newcomers, converted, paid_usd, refunded_usd, active_usd, mrr_usd
    )
    select * from unnest(
        $28::text[], $29::text[], $30::integer[], $31::text[], $32::bigint[], $33::bigint[], $34::bigint[],
        $35::bigint[], $36::bigint[], $37::bigint[], $38::bigint[], $39::bigint[], $40::bigint[], $41::bigint[],
        $42::bigint[], $43::bigint[], $44::bigint[], $45::bigint[], $46::bigint[], $47::bigint[], $48::bigint[],
        $49::bigint[]
    )
    on conflict (project_id, environment, day, currency) do update set
        active = d.active + excluded.active,
        trials = d.trials + excluded.trials,
        mrr = d.mrr + excluded.mrr,
        payments = d.payments + excluded.payments,
        paid = d.paid + excluded.paid,
        refunds = d.refunds + excluded.refunds,
        refunded = d.refunded + excluded.refunded,
        expired = d.expired + excluded.expired,
        resubscribed = d.resubscribed + excluded.resubscribed,
        trials_started = d.trials_started + excluded.trials_started,
        trials_kept = d.trials_kept + excluded.trials_kept,
        trials_converted = d.trials_converted + excluded.trials_converted,
        newcomers = d.newcomers + excluded.newcomers,
        converted = d.converted + excluded.converted,
        paid_usd = d.paid_usd + excluded.paid_usd,
        refunded_usd = d.refunded_usd + excluded.refunded_usd,
        active_usd = d.active_usd + excluded.active_usd,
        mrr_usd = d.mrr_usd + excluded.mrr_usd
)
update figure_rolls r
set position = n.position, rolled_to = n.rolled_to, counted = n.counted, mark_id = n.mark_id, mark_xid = n.mark_xid,
    marked_at = n.marked_at
from unnest(
        $50::text[], $51::bigint[], $52::bigint[], $53::bigint[], $54::bigint[], $55::bigint[], $56::bigint[]
) as n (project_id, position, rolled_to, counted, mark_id, mark_xid, marked_at)
where r.project_id = n.project_id;

-- name: count_newcomers
-- add the next customers of these projects to the hours in which they were first seen; the last id counted in each
with asked as materialized (
    select * from unnest($1::text[], $2::bigint[], $3::bigint[]) as a (project_id, counted, until)
),
next as materialized (
    select a.project_id, c.id, c.first_seen_at, c.test_clock_id
    from asked a
    cross join lateral (
        select k.id, k.first_seen_at, k.test_clock_id from customers k
        where k.project_id = a.project_id and k.id > a.counted and k.id <= a.until
        order by k.id
        limit $4
    ) as c
),
seen as (
    select project_id, (first_seen_at / 86400000)::integer as day, first_seen_at / 3600000 % 24 as hour
    from next
    where test_clock_id is null
),
added as (
    -- One pass, whatever the plan: an import brings customers of thousands of days, and a join that was planned while the
    -- tables were empty goes through all of them for each hour of each day.
    insert into figure_newcomers as n (project_id, day, customers, hours)
    select project_id, day, count(*), array[
        count(*) filter (where hour = 0), count(*) filter (where hour = 1), count(*) filter (where hour = 2),
        count(*) filter (where hour = 3), count(*) filter (where hour = 4), count(*) filter (where hour = 5),
        count(*) filter (where hour = 6), count(*) filter (where hour = 7), count(*) filter (where hour = 8),
        count(*) filter (where hour = 9), count(*) filter (where hour = 10), count(*) filter (where hour = 11),
        count(*) filter (where hour = 12), count(*) filter (where hour = 13), count(*) filter (where hour = 14),
        count(*) filter (where hour = 15), count(*) filter (where hour = 16), count(*) filter (where hour = 17),
        count(*) filter (where hour = 18), count(*) filter (where hour = 19), count(*) filter (where hour = 20),
        count(*) filter (where hour = 21), count(*) filter (where hour = 22), count(*) filter (where hour = 23)
    ]
    from seen
    group by project_id, day
    on conflict (project_id, day) do update set
        customers = n.customers + excluded.customers,
        hours = array(
            select one + two
            from unnest(n.hours, excluded.hours) with ordinality as both_of (one, two, place)
            order by place
        )
)
select project_id, count(*) as customers, max(id) as last from next group by project_id;

-- name: figures_progress
-- the head of a project's feed, and the progress of its figures
select f.position as head, coalesce(r.position, 0) as position, coalesce(r.rolled_to, 0) as rolled_to,
    coalesce(r.counted, 0) as counted
from feeds f
left join figure_rolls r on r.project_id = f.project_id
where f.project_id = $1;

-- name: figure_sums
-- the sums by day until today; all days before a given one are added to it
select greatest(day, $3) as day, currency,
    sum(active)::bigint as active, sum(trials)::bigint as trials, sum(mrr)::bigint as mrr,
    sum(payments)::bigint as payments, sum(paid)::bigint as paid,
    sum(refunds)::bigint as refunds, sum(refunded)::bigint as refunded,
    sum(expired)::bigint as expired, sum(resubscribed)::bigint as resubscribed,
    sum(trials_started)::bigint as trials_started, sum(trials_kept)::bigint as trials_kept,
    sum(trials_converted)::bigint as trials_converted, sum(newcomers)::bigint as newcomers,
    sum(converted)::bigint as converted, sum(paid_usd)::bigint as paid_usd, sum(refunded_usd)::bigint as refunded_usd,
    sum(active_usd)::bigint as active_usd, sum(mrr_usd)::bigint as mrr_usd
from figure_days
where project_id = $1 and environment = $2 and day <= $4
group by 1, 2;

-- name: figure_rest
-- the sum of the lines between two instants
select currency,
    sum(active)::bigint as active, sum(trials)::bigint as trials, sum(mrr)::bigint as mrr,
    sum(payments)::bigint as payments, sum(paid)::bigint as paid,
    sum(refunds)::bigint as refunds, sum(refunded)::bigint as refunded,
    sum(expired)::bigint as expired, sum(resubscribed)::bigint as resubscribed,
    sum(trials_started)::bigint as trials_started, sum(trials_kept)::bigint as trials_kept,
    sum(trials_converted)::bigint as trials_converted, sum(newcomers)::bigint as newcomers,
    sum(converted)::bigint as converted, sum(paid_usd)::bigint as paid_usd, sum(refunded_usd)::bigint as refunded_usd,
    sum(active_usd)::bigint as active_usd, sum(mrr_usd)::bigint as mrr_usd
from figure_lines
where project_id = $1 and environment = $2 and at > $3 and at < $4
group by 1;

-- name: newcomers_by_day
-- new customers by day, all and those before an hour; including those not counted yet
select day, customers, case
    when day < $4 / 24 then customers
    when day = $4 / 24 then (select coalesce(sum(one), 0)::bigint from unnest(hours[1:$4 % 24]) as one)
    else 0
end as before_hour
from figure_newcomers
where project_id = $1 and day >= $2 and day <= $3
union all
select (first_seen_at / 86400000)::integer, count(*), count(*) filter (where first_seen_at / 3600000 < $4)
from customers
where project_id = $1 and id > $5 and test_clock_id is null
    and first_seen_at / 86400000 >= $2 and first_seen_at <= $6
group by 1;

-- name: sandbox_newcomers
-- new customers who have bought in the sandbox only, by day
select day, sum(newcomers)::bigint as customers
from figure_days
where project_id = $1 and environment = 'SANDBOX' and day >= $2 and day <= $3
group by day;

-- name: figure_environments
-- the environments in which anything was ever bought
select environment from (values ('PRODUCTION'), ('SANDBOX')) as known (environment)
where exists (select from figure_days d where d.project_id = $1 and d.environment = known.environment);
