-- name: figures_behind
-- projects with events that are not in the figures yet
select f.project_id
from feeds f
left join figure_rolls r on r.project_id = f.project_id
where f.position > coalesce(r.position, 0)
    or exists (select from figure_marks m where m.project_id = f.project_id)
    or exists (select from customers c where c.project_id = f.project_id and c.id > coalesce(r.counted, 0))
order by f.project_id;

-- name: start_figures
-- start a project's figures at the beginning of its feed
insert into figure_rolls (project_id) values ($1) on conflict do nothing;

-- name: take_figures
-- lock a project's progress, unless another process holds it
select position, rolled_to, counted, mark_id, mark_xid, marked_at,
    pg_snapshot_xmin(pg_current_snapshot())::text::bigint as oldest_xid
from figure_rolls where project_id = $1
for update skip locked;

-- name: await_figures
-- lock a project's progress, waiting for another process
select position, rolled_to, counted, mark_id, mark_xid, marked_at,
    pg_snapshot_xmin(pg_current_snapshot())::text::bigint as oldest_xid
from figure_rolls where project_id = $1
for update;

-- name: figures_next_events
-- the customers of the next events of a project's feed
select position, customer_id, committed_at from events
where project_id = $1 and position > $2
order by position
limit $3;

-- name: mark_for_figures
-- mark customers who changed without an event
insert into figure_marks (project_id, customer_id) select * from unnest($1::text[], $2::bigint[]);

-- name: take_figure_marks
-- take the marks of customers who changed without an event
delete from figure_marks
where project_id = $1
    and id = any(array(select id from figure_marks where project_id = $1 order by id limit $2))
returning customer_id;

-- name: figures_customers
-- customers, all from one snapshot; merged and erased ones are missing
select id, state from customers where project_id = $1 and id = any($2::bigint[]);

-- name: figure_lines_of
-- the stored lines of these purchases
select purchase, at, currency, environment,
    active, trials, mrr, payments, paid, refunds, refunded, expired, resubscribed,
    trials_started, trials_kept, trials_converted, newcomers,
    converted, paid_usd, refunded_usd, active_usd, mrr_usd
from figure_lines
where project_id = $1 and purchase = any($2::uuid[]);

-- name: delete_figure_lines
-- delete lines of purchases
delete from figure_lines l
using unnest($1::text[], $2::uuid[], $3::bigint[], $4::text[]) as gone (project_id, purchase, at, currency)
where l.project_id = gone.project_id and l.purchase = gone.purchase and l.at = gone.at and l.currency = gone.currency;

-- name: add_figure_lines
-- add lines of purchases
insert into figure_lines (
    project_id, purchase, at, currency, environment,
    active, trials, mrr, payments, paid, refunds, refunded, expired, resubscribed,
    trials_started, trials_kept, trials_converted, newcomers,
    converted, paid_usd, refunded_usd, active_usd, mrr_usd
)
select $1, * from unnest(
    $2::uuid[], $3::bigint[], $4::text[], $5::text[],
    $6::smallint[], $7::smallint[], $8::bigint[], $9::smallint[], $10::bigint[], $11::smallint[], $12::bigint[],
    $13::smallint[], $14::smallint[], $15::smallint[], $16::smallint[], $17::smallint[], $18::smallint[],
    $19::smallint[], $20::bigint[], $21::bigint[], $22::smallint[], $23::bigint[]
);

-- name: add_to_figure_days
-- add the differences of changed lines to the sums of their days
insert into figure_days as d (
    project_id, environment, day, currency,
    active, trials, mrr, payments, paid, refunds, refunded, expired, resubscribed,
    trials_started, trials_kept, trials_converted, newcomers,
    converted, paid_usd, refunded_usd, active_usd, mrr_usd
)
select $1, * from unnest(
    $2::text[], $3::integer[], $4::text[],
    $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[],
    $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[],
    $18::bigint[], $19::bigint[], $20::bigint[], $21::bigint[], $22::bigint[]
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
    mrr_usd = d.mrr_usd + excluded.mrr_usd;

-- name: newest_customer
-- the highest customer id of a project
select id from customers where project_id = $1 order by id desc limit 1;

-- name: present_xid
-- a transaction id higher than that of every transaction that has changed anything so far
select pg_current_xact_id()::text::bigint;

-- name: count_newcomers
-- add the next customers to the hours in which they were first seen; returns the last id counted
with next as (
    select id, first_seen_at, test_clock_id from customers
    where project_id = $1 and id > $2 and id <= $3
    order by id
    limit $4
), seen as (
    select (first_seen_at / 86400000)::integer as day, first_seen_at / 3600000 % 24 as hour
    from next
    where test_clock_id is null
), added as (
    -- One pass, whatever the plan: an import brings customers of thousands of days, and a join that was planned while the
    -- tables were empty goes through all of them for each hour of each day.
    insert into figure_newcomers as n (project_id, day, customers, hours)
    select $1, day, count(*), array[
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
    group by day
    on conflict (project_id, day) do update set
        customers = n.customers + excluded.customers,
        hours = array(
            select one + two
            from unnest(n.hours, excluded.hours) with ordinality as both_of (one, two, place)
            order by place
        )
)
select count(*) as customers, max(id) as last from next;

-- name: save_figures
-- store a project's progress
update figure_rolls
set position = $2, rolled_to = $3, counted = $4, mark_id = $5, mark_xid = $6, marked_at = $7
where project_id = $1;

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
