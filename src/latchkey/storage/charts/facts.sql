-- Makes the facts of `periods` and `customers`, in DuckDB: the view `facts`. Lines of dashes separate statements.
-- What each kind of fact means is in domain/charts/fact.py. Instants are in milliseconds.
-- Rows refer to what was bought and where from by number (`things`, `origins`), because tables that are sorted for a window
-- should be narrow.

create or replace temp macro is_paid(type) as type in ('normal', 'intro', 'prepaid');
----
create or replace temp macro no_money() as {
    'micros': 0::bigint, 'tax': 0::bigint, 'commission': 0::bigint, 'usd': 0::bigint, 'tax_usd': 0::bigint,
    'commission_usd': 0::bigint, 'unconverted': 0
};
----
create or replace temp macro money(micros, usd, tax, commission) as {
    'micros': micros,
    'tax': round_even(micros * coalesce(tax, 0), 0)::bigint,
    'commission': round_even(micros * coalesce(commission, 0), 0)::bigint,
    'usd': coalesce(usd, 0),
    'tax_usd': coalesce(round_even(usd * tax, 0)::bigint, 0),
    'commission_usd': coalesce(round_even(usd * commission, 0)::bigint, 0),
    'unconverted': if(micros <> 0 and usd is null, 1, 0)
};
----
create or replace temp macro minus(a, b) as {
    'micros': a.micros - b.micros, 'tax': a.tax - b.tax, 'commission': a.commission - b.commission, 'usd': a.usd - b.usd,
    'tax_usd': a.tax_usd - b.tax_usd, 'commission_usd': a.commission_usd - b.commission_usd,
    'unconverted': a.unconverted - b.unconverted
};
----
create or replace temp macro negative(a) as {
    'micros': -a.micros, 'tax': -a.tax, 'commission': -a.commission, 'usd': -a.usd, 'tax_usd': -a.tax_usd,
    'commission_usd': -a.commission_usd, 'unconverted': -a.unconverted
};
----
-- What was given back, as `periods.back` has it.
create or replace temp macro given(back) as {
    'micros': back[3], 'tax': back[4], 'commission': back[5], 'usd': back[6], 'tax_usd': back[7],
    'commission_usd': back[8], 'unconverted': back[9]::integer
};
----
-- The part of a difference that is growth, in each amount that a chart can show: in the currency paid and in USD, gross,
-- net of tax, and after commission. Where that amount became less it is 0. A price can fall while the exchange rate rises,
-- so one change can be growth in USD and none in its own currency.
create or replace temp macro growth(d) as {
    'micros': greatest(d.micros, 0),
    'tax': greatest(d.micros, 0) - greatest(d.micros - d.tax, 0),
    'commission': greatest(d.micros - d.tax, 0) - greatest(d.micros - d.tax - d.commission, 0),
    'usd': greatest(d.usd, 0),
    'tax_usd': greatest(d.usd, 0) - greatest(d.usd - d.tax_usd, 0),
    'commission_usd': greatest(d.usd - d.tax_usd, 0) - greatest(d.usd - d.tax_usd - d.commission_usd, 0),
    'unconverted': greatest(d.unconverted, 0)
};
----
create or replace temp macro lifetime_of(days) as
    case
        when days <= 0 then 0 when days <= 7 then 1 when days <= 14 then 2 when days <= 30 then 3 when days <= 90 then 4
        when days <= 180 then 5 when days <= 365 then 6 when days <= 730 then 7 else 8
    end;
----
-- The place in `LIFETIMES` of an instant, counted from the day of another one.
create or replace temp macro lifetime(moment, since) as lifetime_of(moment // 86400000 - since // 86400000);
----
create or replace temp macro variants_until(enrollments, until) as coalesce(
    array_to_string(
        list_sort(list_transform(list_filter(enrollments, lambda e: e.moment <= until), lambda e: e.variant)), chr(31)
    ),
    ''
);
----
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
-- The periods of subscriptions with their neighbours. A store kept access open after a failed payment until the next one,
-- at most until the end of its grace period. Renewals go on without a gap, with the same product; prepaid time is bought
-- again, not renewed.
create or replace temp table lined as
select n.*,
    if(
        n.next_type is not null and n.grace_ends_at is not null and n.access_ends_at = n.ends_at,
        greatest(n.access_ends_at, least(n.grace_ends_at, n.next_purchased_at)),
        n.access_ends_at
    ) as ended_at,
    coalesce(is_paid(n.next_type) and n.next_starts_at <= n.access_ends_at, false) as is_followed,
    n.type in ('normal', 'intro') as renews,
    coalesce(
        n.type_before in ('normal', 'intro') and is_paid(n.type) and n.starts_at <= n.access_before
            and n.product_before = n.product,
        false
    ) as goes_on
from (
    select s.id, s.customer, s.environment, s.sandbox, s.purchase, s.place, s.type, s.cause, s.purchased_at, s.starts_at,
        s.ends_at, s.access_ends_at, s.refunded_at, s.standing, s.told_at, s.failed_at, s.grace_ends_at, s.thing,
        s.origin, s.product, s.level, s.currency,
        lag(s.type) over line as type_before, lag(s.access_ends_at) over line as access_before,
        lag(s.product) over line as product_before, lead(s.type) over line as next_type,
        lead(s.cause) over line as next_cause, lead(s.starts_at) over line as next_starts_at,
        lead(s.purchased_at) over line as next_purchased_at, lead(s.refunded_at) over line as next_refunded_at
    from sold s
    where s.side <> 2 and s.type not in ('one_time', 'shared')
    window line as (partition by s.purchase order by s.place)
) as n;
----
-- When which period counts. Where two overlap, the later one does; then one period may have several segments. A payment that
-- was made good within the grace period belongs to the period before it until it was made, as it was seen when it
-- happened: so days that have passed do not change.
create or replace temp table uneven as
select distinct r.purchase
from (
    select l.purchase, l.starts_at, l.purchased_at, max(l.ended_at) over (
        partition by l.purchase order by l.place rows between unbounded preceding and 1 preceding
    ) as ended_before
    from lined l
    where l.starts_at < l.ended_at
) as r
where r.starts_at < r.ended_before or r.starts_at < r.purchased_at;
----
create or replace temp table segments as
with bent as (
    select l.* from lined l semi join uneven u on u.purchase = l.purchase where l.starts_at < l.ended_at
),
pieces as (
    select b.purchase, b.moment as starts_at, lead(b.moment) over (partition by b.purchase order by b.moment) as ends_at
    from (select distinct purchase, unnest([starts_at, ended_at]) as moment from bent) as b
),
covered as (
    select p.purchase, p.starts_at, p.ends_at, max(b.place) as place
    from pieces p
    join bent b on b.purchase = p.purchase and b.starts_at <= p.starts_at and b.ended_at >= p.ends_at
    group by all
),
islands as (
    select c.*, sum(if(c.place_before = c.place and c.ended_before = c.starts_at, 0, 1)) over (
        partition by c.purchase order by c.starts_at
    ) as island
    from (
        select *, lag(place) over line as place_before, lag(ends_at) over line as ended_before
        from covered
        window line as (partition by purchase order by starts_at)
    ) as c
),
whole as (
    select purchase, any_value(place) as place, min(starts_at) as segment_start, max(ends_at) as segment_end
    from islands
    group by purchase, island
),
late as (
    select w.*, b.purchased_at,
        coalesce(
            lag(w.segment_end) over (partition by w.purchase order by w.segment_start) = w.segment_start
                and w.segment_start < b.purchased_at and b.purchased_at < w.segment_end,
            false
        ) as is_late
    from whole w
    join bent b on b.purchase = w.purchase and b.place = w.place
),
seen as (
    select purchase, place, if(is_late, purchased_at, segment_start) as segment_start,
        if(lead(is_late, 1, false) over line, lead(purchased_at) over line, segment_end) as segment_end
    from late
    window line as (partition by purchase order by segment_start)
)
select b.*, s.segment_start, s.segment_end
from seen s
join bent b on b.purchase = s.purchase and b.place = s.place
union all
select l.*, l.starts_at, l.ended_at
from lined l
anti join uneven u on u.purchase = l.purchase
where l.starts_at < l.ended_at;
----
-- Paid time. `follows`: without a gap after other paid time, which `old_id` is about.
create or replace temp table running as
select r.*, coalesce(r.ended_before = r.segment_start, false) as follows,
    coalesce(r.next_start = r.segment_end, false) as is_followed
from (
    select s.id, s.customer, s.environment, s.sandbox, s.purchase, s.place, s.type, s.cause, s.type_before,
        s.segment_start, s.segment_end, s.level, lag(s.segment_end) over line as ended_before,
        lead(s.segment_start) over line as next_start, lag(s.level) over line as old_level, lag(s.id) over line as old_id
    from segments s
    where is_paid(s.type)
    window line as (partition by s.purchase order by s.segment_start)
) as r;
----
create or replace temp table levels as
select s.id, s.currency, s.thing, s.origin,
    if(s.micros = 0, no_money(), money(s.monthly_micros, s.monthly_usd, s.tax, s.commission)) as amount
from sold s
where s.id in (select id from running where not follows or not is_followed or level <> old_level)
    or s.id in (select old_id from running where follows and level <> old_level);
----
-- Another price or product without a gap.
create or replace temp table changes as
select c.*, growth(c.difference) as more, growth(c.opposite) as less, c.thing <> c.old_thing or c.origin <> c.old_origin
    or c.currency <> c.old_currency as moves
from (
    select r.environment, r.customer, r.segment_start as moment, n.currency, n.thing, n.origin, n.amount,
        o.currency as old_currency, o.thing as old_thing, o.origin as old_origin, o.amount as old_amount,
        minus(n.amount, o.amount) as difference, minus(o.amount, n.amount) as opposite
    from running r
    join levels n on n.id = r.id
    join levels o on o.id = r.old_id
    where r.follows and r.level <> r.old_level
) as c;
----
-- Paid time without a gap, and whether the customer came back with it: each stretch makes good for one that had ended
-- before. `passed` are the ends up to a start, `made_good` the stretches up to it that made good for one.
create or replace temp table stretches as
with begun as (
    select r.*, count(*) over (partition by r.customer, r.sandbox) as of_customer from running r where not r.follows
),
instants as (
    select b.customer, b.sandbox, b.purchase, b.segment_start as moment, b.id, 1 as starts, 0 as ended
    from begun b
    where b.of_customer > 1
    union all
    select r.customer, r.sandbox, null, r.segment_end, null, 0, 1
    from running r
    semi join begun b on b.customer = r.customer and b.of_customer > 1
    where not r.is_followed
),
counted as (
    select i.*, sum(i.ended) over line as passed, sum(i.starts) over line as number
    from instants i
    window line as (
        partition by i.customer, i.sandbox order by i.moment, i.starts, i.purchase
        rows between unbounded preceding and current row
    )
),
made as (
    select c.*, c.number + least(0, min(c.passed - c.number) over (
        partition by c.customer, c.sandbox order by c.number rows between unbounded preceding and current row
    )) as made_good
    from counted c
    where c.starts = 1
),
back as (
    select m.id, m.moment,
        m.made_good > lag(m.made_good, 1, 0) over (partition by m.customer, m.sandbox order by m.number) as is_return
    from made m
)
select if(coalesce(k.is_return, false), 'return', 'new') as kind, b.environment, b.customer, b.segment_start as moment,
    case
        when b.cause = 'conversion' or b.type_before = 'trial' then 2
        when b.type = 'intro' then 1
        else 0
    end as n,
    b.id
from begun b
left join back k on k.id = b.id and k.moment = b.segment_start;
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
----
insert into fact_rows
select 'active', environment, customer, segment_start, 0, currency, 1, amount.*, thing, origin
from running join levels using (id) where not follows
union all
select k, environment, customer, segment_end, 0, currency, if(k = 'churn', 1, -1),
    unnest(if(k = 'churn', amount, negative(amount))), thing, origin
from running join levels using (id) cross join (select unnest(['active', 'churn']) as k) where not is_followed
union all
select kind, environment, customer, moment, n, currency, 1, amount.*, thing, origin from stretches join levels using (id)
-- Another product, country or currency moves the level; another price changes it.
union all
select 'active', environment, customer, moment, 0, old_currency, -1, unnest(negative(old_amount)), old_thing, old_origin
from changes where moves
union all
select 'active', environment, customer, moment, 0, currency, 1, amount.*, thing, origin from changes where moves
union all
select 'active', environment, customer, moment, 0, currency, 0, difference.*, thing, origin from changes where not moves
-- In another currency the old amount is contraction, the new one expansion. Else what is more is expansion of the new
-- product, what is less is contraction of the old one, and what both have in common moves from the old one to the new.
union all
select 'contraction', environment, customer, moment, 0, old_currency, if(currency = old_currency, 0, 1),
    unnest(if(currency = old_currency, less, old_amount)), old_thing, old_origin
from changes
union all
select 'expansion', environment, customer, moment, 0, currency, if(currency = old_currency, 0, 1),
    unnest(if(currency = old_currency, more, amount)), thing, origin
from changes
union all
select 'expansion', environment, customer, moment, 1, currency, -1, unnest(minus(more, amount)), old_thing, old_origin
from changes where moves and currency = old_currency
union all
select 'expansion', environment, customer, moment, 1, currency, 1, unnest(minus(amount, more)), thing, origin
from changes where moves and currency = old_currency;
----
-- A trial that was converted early ends there, even if that payment is refunded while the trial would still run.
insert into fact_rows
with trials as (
    select l.*, coalesce(s.segment_start, l.starts_at) as began_at, coalesce(s.segment_end, l.starts_at) as over_at,
        s.id is not null as ran,
        case
            when is_paid(l.next_type) then if(l.next_refunded_at is null, 1, 3)
            when l.next_type is not null or l.standing & 12 <> 0 then 2
            else 0
        end as fate
    from lined l
    left join (
        select id, min(segment_start) as segment_start, arg_min(segment_end, segment_start) as segment_end
        from segments where type = 'trial'
        group by id
    ) as s on s.id = l.id
    where l.type = 'trial'
)
select 'trial', environment, customer, began_at, 0, '', 1, unnest(no_money()), thing, origin from trials where ran
union all
select 'trial', environment, customer, over_at, 0, '', -1, unnest(no_money()), thing, origin from trials where ran
union all
select 'trial_started', environment, customer, began_at, fate, '', 1, unnest(no_money()), thing, origin from trials
union all
select 'trial_ended', environment, customer, over_at, if(fate in (1, 3), 1, 2), '', 1, unnest(no_money()), thing, origin
from trials;
----
-- How the newest period stands, for all that runs from then on: at every later moment the sum is the number of
-- subscriptions that run then. After a failed payment, nothing but a payment helps once the paid time is over.
insert into fact_rows
with standing as (
    select s.*, c.id as current_id, c.ends_at as current_ends_at, c.standing & 2 <> 0 as failed,
        case
            when c.standing & 1 = 0 or c.refunded_at is not null then 1
            when c.standing & 2 <> 0 then 2
            else 0
        end as until_end
    from segments s
    join (select * from lined where next_type is null) as c on c.purchase = s.purchase
    where s.segment_end > least(c.starts_at, c.told_at) and s.type <> 'promotional'
),
parts as (
    select s.*, unnest(
        if(
            s.id = s.current_id and s.segment_start < s.current_ends_at and s.current_ends_at < s.segment_end and s.failed
                and s.until_end <> 2,
            [
                {'n': s.until_end, 'starts': s.segment_start, 'ends': s.current_ends_at},
                {'n': 2, 'starts': s.current_ends_at, 'ends': s.segment_end}
            ],
            [{'n': s.until_end, 'starts': s.segment_start, 'ends': s.segment_end}]
        )
    ) as part
    from standing s
),
shown as (
    select p.environment, p.customer, p.part, p.thing, p.origin, p.part.n + if(p.type = 'trial', 3, 0) as n,
        if(p.type = 'trial', '', p.currency) as currency,
        if(p.type = 'trial' or s.micros = 0, no_money(), money(s.monthly_micros, s.monthly_usd, s.tax, s.commission))
            as amount
    from parts p
    join sold s on s.id = p.id
)
select 'status', environment, customer, part.starts, n, currency, 1, amount.*, thing, origin from shown
union all
select 'status', environment, customer, part.ends, n, currency, -1, unnest(negative(amount)), thing, origin from shown;
----
-- Renewals are numbered, and cohorts begin anew, where a chain of them begins. Due is a renewal where paid time ends by
-- itself: not after a refund, and not where another product took its place at once. A cohort keeps its size, whatever is
-- refunded.
insert into fact_rows
with chained as (
    select l.*, max(if(l.goes_on, null, l.place)) over line as first_place,
        count(*) filter (where l.type = 'normal') over line as normals
    from lined l
    window line as (partition by l.purchase order by l.place rows between unbounded preceding and current row)
),
numbered as (
    select c.*, least(c.place - c.first_place + 1, 12) as n, row_number() over chain - 1 as standard,
        first(c.purchased_at) over chain as cohort_at, first(c.thing) over chain as cohort,
        first(c.origin) over chain as cohort_origin
    from chained c
    where c.type = 'normal'
    window chain as (partition by c.purchase, c.first_place order by c.place)
),
due as (
    select *, least(place - first_place + 1, 12) as n from chained
    where renews and (refunded_at is null or refunded_at >= ends_at) and not (is_followed and next_cause = 'change')
)
select 'renewal_due', environment, customer, ends_at, n, '', 1, unnest(no_money()), thing, origin from due
union all
select 'renewed', environment, customer, ends_at, n, '', 1, unnest(no_money()), thing, origin from due where is_followed
union all
select 'retained', environment, customer, cohort_at, standard, '', 1, unnest(no_money()), cohort, cohort_origin
from numbered where standard = 0 or refunded_at is null
union all
select 'retained_soon', environment, customer, cohort_at, standard + 1, '', 1, unnest(no_money()), cohort, cohort_origin
from numbered where next_type is null and refunded_at is null and standing & 21 = 1;
----
-- One for each renewal that failed, however often the store tried. What was to be paid is the price of the payment that
-- followed, or of the failed one; of what cost nothing it is the price of the product.
insert into fact_rows
with failed as (
    select l.id, any_value(c.standing) as standing, arg_min(n.starts_at, n.place) as paid_at,
        coalesce(arg_min(n.id, n.place), l.id) as wanted
    from lined l
    join lined c on c.purchase = l.purchase and c.next_type is null
    left join lined n on n.purchase = l.purchase and n.place > l.place and is_paid(n.type)
    where l.failed_at is not null
    group by l.id
)
select 'billing_issue', s.environment, s.customer, s.failed_at,
    case
        when f.paid_at is not null then if(f.paid_at <= s.access_ends_at, 1, 2)
        when f.standing & 12 <> 0 then 3
        when f.standing & 2 <> 0 then 0
        else 1
    end,
    w.currency, 1,
    unnest(
        case
            when w.micros <> 0 then money(w.micros, w.usd, w.tax, w.commission)
            when f.paid_at is null then money(w.monthly_micros, w.monthly_usd, w.tax, w.commission)
            else no_money()
        end
    ),
    s.thing, s.origin
from failed f
join sold s on s.id = f.id
join sold w on w.id = f.wanted;
----
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
