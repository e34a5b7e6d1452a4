-- What follows from everything that a customer bought.
-- Customers: when they were first seen, and in which environment they buy. The country that is not known otherwise is that of
-- the first purchase there.
create or replace temp table seen as
select p.customer, p.enrollments, p.platform, p.app_version, p.variants, p.attributes,
    least(p.first_seen_at, b.first_at) as seen_at, coalesce(p.clock, if(b.sandbox, 'SANDBOX', 'PRODUCTION')) as environment,
    p.clock is not null or coalesce(b.sandbox, false) as is_sandbox,
    coalesce(nullif(p.country, ''), if(p.clock is not null or b.sandbox, b.sandbox_country, b.country), '') as country
from people p
left join (
    select s.customer, min(s.purchased_at) as first_at, bool_and(s.sandbox) as sandbox,
        arg_min(s.country, s.id) filter (
            where c.country = '' and s.sandbox and s.side <> 1 and s.type not in ('shared', 'promotional')
        ) as sandbox_country,
        arg_min(s.country, s.id) filter (
            where c.country = '' and not s.sandbox and s.side <> 1 and s.type not in ('shared', 'promotional')
        ) as country
    from sold s
    join people c on c.customer = s.customer
    group by s.customer
) as b on b.customer = p.customer;
----
-- What was bought is of the purchase; where the customer was first seen is of the customer, and so are the variants, or more
-- customers of a variant could buy than there are.
create or replace temp table scopes as
select *, hash(environment, country, platform, app_version, variants, attributes) as origin
from (
    select customer, is_sandbox, seen_at as since, environment, country, platform, app_version, variants, attributes,
        false as is_enrollment
    from seen
    union all
    select customer, is_sandbox, e.moment, environment, country, platform, app_version, e.variant, attributes, true
    from (select *, unnest(enrollments) as e from seen where enrollments is not null)
);
----
insert into origins
select distinct origin, environment, country, platform, app_version, variants, attributes
from scopes anti join origins using (origin);
----
-- What counts for a customer: what was bought in the customer's environment, but not by another customer who was erased; and
-- for each enrollment in an experiment, what was bought since, whatever the product.
create or replace temp table bought as
select c.customer, c.since, c.is_enrollment, c.origin, if(c.is_enrollment, 0, s.thing) as thing, s.id, s.purchased_at,
    s.micros <> 0 as is_paid, s.type <> 'promotional' as is_conversion
from scopes c
join sold s on s.customer = c.customer and s.sandbox = c.is_sandbox and s.side <> 1 and s.type <> 'shared'
    and (not c.is_enrollment or s.purchased_at >= c.since);
----
-- What a customer paid and got back in each window, by product and currency: half as many facts as payments.
create or replace temp table moves as
select 1000000000000 + row_number() over () as amount, *
from (
    select m.* exclude (quantity, sign, amount), sum(m.quantity)::bigint as quantity, a.currency,
        a.unconverted = 0 as is_converted, sum(m.sign * columns('micros|tax|commission|usd|unconverted'))::bigint
    from (
        select customer, since, is_enrollment, origin, thing, lifetime(purchased_at, since) as n, 1 as quantity, 1 as sign,
            3 * id as amount
        from bought
        where is_paid
        union all
        select b.customer, b.since, b.is_enrollment, b.origin, b.thing, lifetime(r.moment, b.since), -r.quantity, -1,
            r.amount
        from bought b
        join returned r on r.id = b.id
        where b.is_paid
    ) as m
    join amounts a on a.amount = m.amount
    group by all
);
----
insert into amounts by name select amount, currency, columns('micros|tax|commission|usd|unconverted') from moves;
----
insert into fact_rows
with earned as (
    -- The square of what was paid up to each window, in US cents.
    select customer, since, origin, n, (round_even(sum(sum(usd)) over line / 10000.0::double, 0)::bigint) ** 2 as square
    from moves
    where is_enrollment
    group by customer, since, origin, n
    window line as (partition by customer, since, origin order by n)
)
select distinct if(is_enrollment, 'enrolled', 'customer'), customer, since, 0, 1, 0, 0, 0, origin from scopes
union all
select 'paying_customer', s.customer, s.purchased_at, 0, 1, 0, 0, s.thing, s.origin
from sold s
semi join (select min(id) as id from bought where is_paid and not is_enrollment group by customer) as b on b.id = s.id
union all
select if(is_enrollment, 'enrolled_revenue', 'seen_revenue'), customer, since, n, quantity, 1, amount, thing, origin
from moves
union all
select 'enrolled_square', customer, since, n,
    (square - lag(square, 1, 0) over (partition by customer, since, origin order by n))::bigint, 0, 0, 0, origin
from earned;
----
create or replace temp table refunded as select distinct customer from sold semi join returned using (id);
----
-- From when on a customer has something that is not refunded. Where nothing was given back, the first purchase counts.
insert into fact_rows
with firsts as (
    select customer, since, origin, is_enrollment, unnest([
        {'kind': 'converted', 'id': min(id) filter (where is_conversion)},
        {'kind': 'payer', 'id': min(id) filter (where is_paid)}
    ]) as first
    from bought anti join refunded using (customer)
    group by customer, since, origin, is_enrollment
)
select if(f.is_enrollment, 'enrolled_', 'seen_') || f.first.kind, f.customer, f.since, lifetime(s.purchased_at, f.since),
    1, 0, 0, if(f.is_enrollment, 0, s.thing), f.origin
from firsts f
join sold s on s.id = f.first.id;
----
-- Only if: from refunded
-- Within one millisecond, what was bought comes before what was given back.
insert into fact_rows
with held as (
    select if(is_enrollment, 'enrolled_', 'seen_') || k.kind as kind, b.*
    from bought b
    semi join refunded using (customer)
    join (values ('converted'), ('payer')) as k (kind) on if(k.kind = 'payer', b.is_paid, b.is_conversion)
),
steps as (
    select kind, customer, since, origin, thing, id, purchased_at as moment, 1 as change from held
    union all
    select h.kind, h.customer, h.since, h.origin, h.thing, h.id, r.moment, -r.quantity
    from held h
    join returned r on r.id = h.id
    where r.quantity <> 0
),
sums as (
    select s.*, sum(s.change) over (
        partition by s.kind, s.customer, s.since, s.origin order by s.moment, -s.change, s.id
        rows between unbounded preceding and current row
    ) as amount
    from steps s
),
turns as (
    select s.* exclude (thing), last(if(s.change = 1, s.thing, null) ignore nulls) over (
        partition by s.kind, s.customer, s.since, s.origin order by s.moment, -s.change, s.id
        rows between unbounded preceding and current row
    ) as thing
    from sums s
    where (s.change = 1 and s.amount = 1) or (s.change = -1 and s.amount = 0)
)
select kind, customer, since, lifetime(moment, since), change, 0, 0, thing, origin from turns;
----
-- `shown` is the currency of amounts in USD: that, or the own one where no exchange rate is known.
create or replace temp table prices as
select *, if(currency <> '' and unconverted = 0, 'USD', currency) as shown from amounts;
----
create or replace temp view facts as
select f.kind, o.environment, f.customer, f.moment, (f.moment // 86400000)::integer as day, month_of(day) as month, f.n,
    p.currency, p.shown, f.quantity, f.sign * p.micros as micros, f.sign * p.tax as tax, f.sign * p.commission as commission,
    f.sign * p.usd as usd, f.sign * p.tax_usd as tax_usd, f.sign * p.commission_usd as commission_usd,
    f.sign * p.unconverted as unconverted, t.* exclude (thing), o.* exclude (origin, environment)
from fact_rows f
join origins o on o.origin = f.origin
join things t on t.thing = f.thing
join prices p on p.amount = f.amount;
