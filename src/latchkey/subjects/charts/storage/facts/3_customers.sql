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
        arg_min(s.country, {'moment': s.purchased_at, 'purchase': s.purchase, 'place': s.place}) filter (
            where c.country = '' and s.sandbox and s.side <> 1 and s.type not in ('shared', 'promotional')
        ) as sandbox_country,
        arg_min(s.country, {'moment': s.purchased_at, 'purchase': s.purchase, 'place': s.place}) filter (
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
select customer, environment, is_sandbox, seen_at as since, country, platform, app_version, variants, attributes,
    false as is_enrollment
from seen
union all
select customer, environment, is_sandbox, e.moment, country, platform, app_version, e.variant, attributes, true
from (select *, unnest(enrollments) as e from seen where enrollments is not null);
----
insert into origins
select (select count(*) from origins) + row_number() over (), d.*
from (
    select distinct country, platform, app_version, variants, attributes from scopes
    except
    select country, platform, app_version, variants, attributes from origins
) as d;
----
-- What counts for a customer: what was bought in the customer's environment, but not by another customer who was erased; and
-- for each enrollment in an experiment, what was bought since. Nothing of that has a product: the question is what a variant
-- is worth, whatever was bought.
create or replace temp table bought as
select c.customer, c.environment, c.since, c.is_enrollment, o.origin, if(c.is_enrollment, 0, s.thing) as thing, s.id,
    s.purchase, s.place, s.purchased_at, s.type, s.micros, s.back
from scopes c
join origins o on o.country = c.country and o.platform = c.platform and o.app_version = c.app_version
    and o.variants = c.variants and o.attributes = c.attributes
left join sold s on s.customer = c.customer and s.sandbox = c.is_sandbox and s.side <> 1 and s.type <> 'shared'
    and (not c.is_enrollment or s.purchased_at >= c.since);
----
create or replace temp table moves as
select b.customer, b.environment, b.since, b.is_enrollment, b.origin, b.thing, lifetime(b.purchased_at, b.since) as n,
    p.currency, 1 as quantity, p.paid as amount
from bought b
join payments p on p.id = b.id
union all
select b.customer, b.environment, b.since, b.is_enrollment, b.origin, b.thing, lifetime(b.b[1], b.since), p.currency,
    -b.b[2], negative(given(b.b))
from (select *, unnest(back) as b from bought where micros <> 0 and back is not null) as b
join payments p on p.id = b.id;
----
insert into fact_rows
with earned as (
    -- The square of what was paid up to each window, in US cents.
    select environment, customer, since, origin, n,
        (round_even(sum(sum(amount.usd)) over line / 10000.0::double, 0)::bigint) ** 2 as square
    from moves
    where is_enrollment
    group by environment, customer, since, origin, n
    window line as (partition by customer, since, origin order by n)
)
select distinct if(is_enrollment, 'enrolled', 'customer'), environment, customer, since, 0, '', 1, unnest(no_money()), 0,
    origin
from bought
union all
select 'paying_customer', b.environment, b.customer, s.purchased_at, 0, '', 1, unnest(no_money()), s.thing, s.origin
from (
    select environment, customer, arg_min(id, {'moment': purchased_at, 'purchase': purchase, 'place': place}) as id
    from bought where micros <> 0 and not is_enrollment
    group by environment, customer
) as b
join sold s on s.id = b.id
union all
select if(is_enrollment, 'enrolled_revenue', 'seen_revenue'), environment, customer, since, n, currency, quantity,
    amount.*, thing, origin
from moves
union all
select 'enrolled_square', environment, customer, since, n, '',
    (square - lag(square, 1, 0) over (partition by customer, since, origin order by n))::bigint, unnest(no_money()), 0,
    origin
from earned;
----
-- Whether a customer has anything that is not refunded, from when on. Within one millisecond, what was bought comes before
-- what was given back.
insert into fact_rows
with held as (
    select if(is_enrollment, 'enrolled_converted', 'seen_converted') as kind, * from bought where type <> 'promotional'
    union all
    select if(is_enrollment, 'enrolled_payer', 'seen_payer'), * from bought where micros <> 0
),
returned as (select distinct customer from sold where back is not null),
steps as (
    select h.* exclude (back), h.purchased_at as moment, 1 as change
    from held h
    semi join returned r on r.customer = h.customer
    union all
    select h.* exclude (back, b), h.b[1], -h.b[2]
    from (select *, unnest(back) as b from held where back is not null) as h
    where h.b[2] <> 0
),
sums as (
    select s.*, sum(s.change) over (
        partition by s.kind, s.customer, s.since, s.origin order by s.moment, -s.change, s.purchase, s.place
        rows between unbounded preceding and current row
    ) as amount
    from steps s
),
turns as (
    select s.* exclude (thing), last(if(s.change = 1, s.thing, null) ignore nulls) over (
        partition by s.kind, s.customer, s.since, s.origin order by s.moment, -s.change, s.purchase, s.place
        rows between unbounded preceding and current row
    ) as thing
    from sums s
    where (s.change = 1 and s.amount = 1) or (s.change = -1 and s.amount = 0)
),
firsts as (
    select h.kind, h.environment, h.customer, h.since, h.origin, min(h.purchased_at) as moment,
        arg_min(h.thing, {'moment': h.purchased_at, 'purchase': h.purchase, 'place': h.place}) as thing
    from held h
    anti join returned r on r.customer = h.customer
    group by h.kind, h.environment, h.customer, h.since, h.origin
)
select kind, environment, customer, since, lifetime(moment, since), '', change, unnest(no_money()), thing, origin from turns
union all
select kind, environment, customer, since, lifetime(moment, since), '', 1, unnest(no_money()), thing, origin from firsts;
----
create or replace temp view facts as
select c.* exclude (thing, origin), t.product, t.duration, t.store, o.country, o.platform, o.app_version, t.offering,
    o.variants, o.attributes
from fact_rows c
join things t on t.thing = c.thing
join origins o on o.origin = c.origin;
