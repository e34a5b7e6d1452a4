-- The files of this folder, in order, make the facts of `periods` and `customers`, in DuckDB: the view `facts`. Lines of
-- dashes separate statements. One that begins with `Only if` runs where that query finds a row. What each kind of fact
-- means is in subjects/charts/rules/facts.py. Instants are in milliseconds.
-- Rows are narrow, because sorting is most of the work. They refer to what was bought (`things`), to where and when it came
-- from (`origins`), and to money (`amounts`) by number. The numbers of the first two are hashes of all that they stand for:
-- that two of a project are equal by chance will not happen.

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
select d.*, hash(d.product, d.duration, d.store, d.offering) as thing,
    hash(d.environment, d.country, d.platform, d.app_version, d.variants, d.attributes) as origin
from (
    select p.* exclude (country, duration, offering, platform, app_version, seen_country, currency),
        coalesce(p.duration, '') as duration, coalesce(p.offering, '') as offering, coalesce(p.currency, '') as currency,
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
    where p.type <> 'gone'
) as d;
----
create or replace temp table things as
select 0::ubigint as thing, '' as product, '' as duration, '' as store, '' as offering
union all
select distinct thing, product, duration, store, offering from described;
----
create or replace temp table origins as
select distinct origin, environment, country, platform, app_version, variants, attributes from described;
----
-- A customer's rows are numbered in the order of time.
create or replace temp table sold as
select row_number() over () as id, *
from (
    select * exclude (duration, store, offering, environment, platform, app_version, variants, attributes),
        hash(currency, micros = 0, monthly_micros, monthly_usd, tax, commission, thing, origin) as level
    from described
    order by customer, purchased_at, purchase, place
);
----
drop table described;
----
-- Each time that money was given back.
create or replace temp table returned as
select -5 * row_number() over () as amount, id, b[1] as moment, b[2]::tinyint as quantity, b
from (select id, unnest(from_json(back, '[["BIGINT"]]')) as b from sold where back is not null);
----
-- 3 * id: the price of a sold row; + 1: what of it falls on a month; + 2: what was to be paid. Negative: parts of these.
create or replace temp table amounts as
select 0::bigint as amount, '' as currency, unnest(no_money())
union all
select 3 * id, currency, unnest(money(micros, usd, tax, commission)) from sold where type <> 'shared'
union all
select r.amount, s.currency, unnest(given(r.b)) from returned r join sold s on s.id = r.id;
----
-- The money of a fact is that of `amount`, times `sign`.
create or replace temp table fact_rows (
    kind varchar, customer bigint, moment bigint, n integer, quantity bigint, sign tinyint, amount bigint, thing ubigint,
    origin ubigint
);
----
insert into fact_rows
with payments as (
    select p.*, if(f.id = p.id, 0, 1) as n
    from sold p
    join (
        select customer, sandbox, min(id) as id
        from sold
        where micros <> 0 and type <> 'shared' and side <> 2
        group by customer, sandbox
    ) as f on f.customer = p.customer and f.sandbox = p.sandbox
    where p.micros <> 0 and p.type <> 'shared' and p.side <> 2
)
select 'payment', customer, purchased_at, n, 1, 1, 3 * id, thing, origin from payments
union all
select 'refunded_payment', customer, purchased_at, n, 1, 1, 3 * id, thing, origin from payments
where refunded_at is not null
union all
select 'refund', p.customer, r.moment, p.n, r.quantity, 1, r.amount, p.thing, p.origin
from payments p
join returned r on r.id = p.id;
