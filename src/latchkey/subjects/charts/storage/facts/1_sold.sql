-- The files of this folder, in order, make the facts of `periods` and `customers`, in DuckDB: the view `facts`. Lines of
-- dashes separate statements. Here: what was sold, and payments.
-- What each kind of fact means is in subjects/charts/rules/facts.py. Instants are in milliseconds.
-- Rows refer to what was bought and where from by number (`things`, `origins`), because tables that are sorted for a window
-- should be narrow.

create or replace temp table people as
select c.customer, c.clock, c.first_seen_at, coalesce(c.platform, '') as platform,
    coalesce(c.app_version, '') as app_version, coalesce(c.country, '') as country,
    c.enrolled as enrollments,
    if(c.enrolled is null, '', variants_until(c.enrolled, 9223372036854775807)) as variants,
    coalesce(c.attributes, '') as attributes
from (
    select *, from_json(enrollments, '[{"variant": "VARCHAR", "moment": "BIGINT"}]') as enrolled from customers
) as c;
----
-- Periods and one-time purchases with what they can be broken down by. The first row of a purchase says where it came from.
create or replace temp table described as
select p.* exclude (country, duration, offering, platform, app_version, seen_country, currency, back),
    coalesce(p.duration, '') as duration, coalesce(p.offering, '') as offering, coalesce(p.currency, '') as currency,
    from_json(p.back, '[["BIGINT"]]') as back,
    coalesce(c.clock, if(p.sandbox, 'SANDBOX', 'PRODUCTION')) as environment,
    coalesce(p.country, nullif(if(f.is_known, coalesce(f.seen_country, ''), c.country), ''), '') as country,
    if(f.is_known, coalesce(f.platform, ''), c.platform) as platform,
    if(f.is_known, coalesce(f.app_version, ''), c.app_version) as app_version,
    if(c.enrollments is null, '', variants_until(c.enrollments, f.purchased_at)) as variants, c.attributes
from periods p
join people c on c.customer = p.customer
join (
    select purchase, purchased_at, platform, app_version, seen_country,
        coalesce(platform, app_version, seen_country) is not null as is_known
    from periods
    where type <> 'gone'
    qualify row_number() over (partition by purchase order by place) = 1
) as f on f.purchase = p.purchase
where p.type <> 'gone';
----
create or replace temp table things as
select 0 as thing, '' as product, '' as duration, '' as store, '' as offering
union all
select row_number() over (), d.* from (select distinct product, duration, store, offering from described) as d;
----
create or replace temp table origins as
select row_number() over () as origin, d.*
from (select distinct country, platform, app_version, variants, attributes from described) as d;
----
create or replace temp table sold as
select row_number() over () as id, d.customer, d.environment, d.sandbox, d.side, d.purchase, d.place, d.type, d.cause,
    d.purchased_at, d.starts_at, d.ends_at, d.access_ends_at, d.refunded_at, d.standing, d.told_at, d.failed_at,
    d.grace_ends_at, d.currency, d.micros, d.usd, d.monthly_micros, d.monthly_usd, d.tax, d.commission, d.back, t.thing,
    o.origin, d.product, d.country,
    hash(d.currency, d.micros = 0, d.monthly_micros, d.monthly_usd, d.tax, d.commission, t.thing, o.origin) as level
from described d
join things t on t.product = d.product and t.duration = d.duration and t.store = d.store and t.offering = d.offering
join origins o on o.country = d.country and o.platform = d.platform and o.app_version = d.app_version
    and o.variants = d.variants and o.attributes = d.attributes;
----
create or replace temp table fact_rows (
    kind varchar, environment varchar, customer bigint, moment bigint, n integer, currency varchar, quantity bigint,
    micros bigint, tax bigint, commission bigint, usd bigint, tax_usd bigint, commission_usd bigint, unconverted integer,
    thing bigint, origin bigint
);
----
create or replace temp table payments as
select s.*, money(s.micros, s.usd, s.tax, s.commission) as paid from sold s where s.micros <> 0 and s.type <> 'shared';
----
insert into fact_rows
with numbered as (
    select p.*, if(f.id = p.id, 0, 1) as n
    from payments p
    join (
        select customer, sandbox, arg_min(id, {'moment': purchased_at, 'purchase': purchase, 'place': place}) as id
        from payments
        where side <> 2
        group by customer, sandbox
    ) as f on f.customer = p.customer and f.sandbox = p.sandbox
    where p.side <> 2
)
select 'payment', environment, customer, purchased_at, n, currency, 1, paid.*, thing, origin from numbered
union all
select 'refunded_payment', environment, customer, purchased_at, n, currency, 1, paid.*, thing, origin from numbered
where refunded_at is not null
union all
select 'refund', environment, customer, b[1], n, currency, b[2], unnest(given(b)), thing, origin
from (select *, unnest(back) as b from numbered where back is not null);
