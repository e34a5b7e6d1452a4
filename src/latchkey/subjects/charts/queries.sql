-- name: chart_periods_of
-- the periods and one-time purchases of a project, of these customers or of all
select customer_id as customer, purchase, place, type, cause, sandbox, store, product, duration, country, offering,
    purchased_at, starts_at, ends_at, access_ends_at, refunded_at, currency, micros, usd, monthly_micros, monthly_usd,
    tax, commission, back, standing, told_at, failed_at, grace_ends_at, platform, app_version, seen_country, side
from chart_periods
where project_id = $1 and ($2::bigint[] is null or customer_id = any($2::bigint[]));

-- name: chart_customers_of
-- the customers of a project as charts count them, those who are erased too; these or all
-- Most have no enrollments and no attributes: looking for them in the text is quicker than reading it as JSON. A value
-- that has the separator gets a space in its place.
select c.id as customer, c.first_seen_at, c.test_clock_id as clock, c.first_platform as platform,
    c.first_app_version as app_version, c.first_country as country,
    case when position('"enrollments":[{' in c.state::text) > 0 then (
        select jsonb_agg(jsonb_build_object(
            'variant', (e ->> 'experiment_id') || '=' || (e ->> 'variant_id'), 'moment', (e ->> 'enrolled_at')::bigint
        ))::text
        from json_array_elements(c.state -> 'enrollments') as e
    ) end as enrollments,
    case when p.chart_attributes <> '{}' and position('"attributes":{"' in c.state::text) > 0 then (
        select string_agg(a.chosen, E'\x1f' order by a.chosen collate "C")
        from (
            select k.key || '=' || replace(k.value ->> 'value', E'\x1f', ' ') as chosen
            from json_each(c.state -> 'attributes') as k
            where k.key = any(p.chart_attributes)
        ) as a
    ) end as attributes
from customers c
cross join (select q.chart_attributes from projects q where q.id = $1) as p
where c.project_id = $1 and ($2::bigint[] is null or c.id = any($2::bigint[]))
union all
select customer_id, first_seen_at, test_clock_id, first_platform, first_app_version, first_country, enrollments,
    attributes
from chart_customers
where project_id = $1 and ($2::bigint[] is null or customer_id = any($2::bigint[]));

-- name: chart_attributes_of
-- the attributes that a project has chosen for charts
select chart_attributes from projects where id = $1;

-- name: choose_chart_attributes
-- the customer attributes that charts can be filtered and broken down by
update projects set chart_attributes = $2::text[] where id = $1;

-- name: chart_mark
-- the transactions that are visible now, and what they are of: in a cluster the node that has the project
-- A dump that is loaded into the same database creates its tables anew, with other oids. After any other restore positions
-- skip to another 10^9.
select pg_snapshot_xmin(pg_current_snapshot())::text::bigint as oldest_xid,
    pg_snapshot_xmax(pg_current_snapshot())::text::bigint as next_xid,
    (select system_identifier from pg_control_system())::text
        || '-' || (select d.oid from pg_database d where d.datname = current_database()) || '-' || f.tableoid
        || '-' || f.position / 1000000000 || '-' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) as epoch
from feeds f
where f.project_id = $1;

-- name: chart_changes
-- customers that were created, changed, erased or merged by a transaction of a range of transaction ids
select c.id from customers c where c.project_id = $1 and c.changed_xid >= $2 and c.changed_xid < $3
union
select g.customer_id from gone_customers g where g.project_id = $1 and g.xid >= $2 and g.xid < $3;

-- name: keep_erased_chart_customer
-- charts count a customer who is about to be erased as before
-- Each sale is kept twice: once as the sale, which another customer may own one day, once as the erased customer's.
with customer as (
    insert into chart_customers (
        project_id, customer_id, first_seen_at, test_clock_id, first_platform, first_app_version, first_country,
        enrollments, attributes
    )
    select c.project_id, c.id, c.first_seen_at, c.test_clock_id, c.first_platform, c.first_app_version, c.first_country,
        $3, $4
    from customers c
    where c.project_id = $1 and c.id = $2
),
sold as (
    update chart_periods set side = 1 where project_id = $1 and customer_id = $2 and side = 0 returning *
),
pseudonyms as materialized (
    select s.purchase, gen_random_uuid() as copy from (select distinct purchase from sold) as s
)
insert into chart_periods
select copied.*
from sold s
join pseudonyms p using (purchase)
cross join lateral jsonb_populate_record(
    null::chart_periods, to_jsonb(s) || jsonb_build_object('purchase', p.copy, 'side', 2)
) as copied;
