-- Makes the table `facts` from `periods` and `customers`, in DuckDB. Statements are separated by lines of dashes.
-- What each kind of fact means is in domain/charts/fact.py. Instants are milliseconds.

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
create or replace temp macro no_money() as {
    'micros': 0::bigint, 'tax': 0::bigint, 'commission': 0::bigint, 'usd': 0::bigint, 'tax_usd': 0::bigint,
    'commission_usd': 0::bigint, 'unconverted': 0
};
----
create or replace temp macro negative(a) as {
    'micros': -a.micros, 'tax': -a.tax, 'commission': -a.commission, 'usd': -a.usd, 'tax_usd': -a.tax_usd,
    'commission_usd': -a.commission_usd, 'unconverted': -a.unconverted
};
----
-- The part of a difference that is growth, in each amount that a chart can show: in the currency paid and in USD, gross,
-- net of tax, and after commission. Where that amount became less it is 0.
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
-- The first of `LIFETIMES` that an instant falls into, counted from the day of another one.
create or replace temp macro lifetime_of(days) as
    case
        when days <= 0 then 0 when days <= 7 then 1 when days <= 14 then 2 when days <= 30 then 3 when days <= 90 then 4
        when days <= 180 then 5 when days <= 365 then 6 when days <= 730 then 7 else 8
    end;
----
create or replace temp macro lifetime(moment, since) as lifetime_of(moment // 86400000 - since // 86400000);
----
create or replace temp macro is_paid(type) as type in ('normal', 'intro', 'prepaid');
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
    from_json(c.enrollments, '[{"variant": "VARCHAR", "moment": "BIGINT"}]') as enrollments,
    coalesce(c.attributes, '') as attributes
from customers c;
----
-- Periods and one-time purchases with what they are counted as. `newest` is the row that says how a subscription stands.
create or replace temp table sold as
with placed as (
    select p.*,
        first(p.purchased_at) over subscription as started_at,
        first(if(coalesce(p.platform, p.app_version, p.seen_country) is null, null,
            {'platform': coalesce(p.platform, ''), 'app_version': coalesce(p.app_version, ''),
                'country': coalesce(p.seen_country, '')})) over subscription as origin
    from periods p
    where p.type <> 'gone'
    window subscription as (partition by p.purchase order by p.place)
)
select p.customer, p.purchase, p.place, p.type, p.cause, p.sandbox, p.side,
    coalesce(c.clock, if(p.sandbox, 'SANDBOX', 'PRODUCTION')) as environment,
    p.purchased_at, p.starts_at, p.ends_at, p.access_ends_at, p.refunded_at, coalesce(p.currency, '') as currency,
    p.micros, if(p.micros = 0, no_money(), money(p.micros, p.usd, p.tax, p.commission)) as paid,
    if(p.micros = 0, no_money(), money(p.monthly_micros, p.monthly_usd, p.tax, p.commission)) as level,
    if(p.micros = 0, money(p.monthly_micros, p.monthly_usd, p.tax, p.commission), null) as owed,
    from_json(p.back, '[["BIGINT"]]') as back, p.standing, p.told_at, p.failed_at, p.grace_ends_at,
    {
        'product': p.product,
        'duration': coalesce(p.duration, ''),
        'store': p.store,
        'country': coalesce(p.country, nullif(o.country, ''), ''),
        'platform': o.platform,
        'app_version': o.app_version,
        'offering': coalesce(p.offering, ''),
        'variants': if(c.enrollments is null, '', variants_until(c.enrollments, p.started_at)),
        'attributes': c.attributes
    } as dimensions
from placed p
join people c on c.customer = p.customer
cross join lateral (
    select coalesce(p.origin.platform, c.platform) as platform, coalesce(p.origin.app_version, c.app_version) as app_version,
        coalesce(p.origin.country, c.country) as country
) as o;
----
-- The periods of subscriptions, with their neighbours. `ended_at`: where access ended; a store kept it open after a failed
-- payment until the next one, at most until the end of its grace period.
create or replace temp table lined as
with neighbours as (
    select s.*,
        lag(s.type) over line as type_before, lead(s.type) over line as next_type, lead(s.cause) over line as next_cause,
        lead(s.starts_at) over line as next_starts_at, lead(s.purchased_at) over line as next_purchased_at,
        lead(s.refunded_at) over line as next_refunded_at, lead(s.dimensions.product) over line as next_product,
        last(s.standing) over whole as current_standing, last(s.ends_at) over whole as current_ends_at,
        last(s.place) over whole as current_place, last(s.refunded_at) over whole as current_refunded_at,
        least(last(s.starts_at) over whole, last(s.told_at) over whole) as standing_since
    from sold s
    where s.side <> 2 and s.type not in ('one_time', 'shared')
    window line as (partition by s.purchase order by s.place),
        whole as (partition by s.purchase order by s.place rows between unbounded preceding and unbounded following)
)
select n.*,
    if(
        n.next_type is not null and n.grace_ends_at is not null and n.access_ends_at = n.ends_at,
        greatest(n.access_ends_at, least(n.grace_ends_at, n.next_purchased_at)),
        n.access_ends_at
    ) as ended_at
from neighbours n;
----
-- When which period counts. Where two overlap, the later one does; then one period may have several segments.
create or replace temp table overlapping as
select distinct r.purchase
from (
    select l.purchase, l.starts_at,
        max(l.ended_at) over (
            partition by l.purchase order by l.place rows between unbounded preceding and 1 preceding
        ) as ended_before
    from lined l
    where l.starts_at < l.ended_at
) as r
where r.starts_at < r.ended_before;
----
create or replace temp table segments as
with bounds as (
    select l.purchase, unnest([l.starts_at, l.ended_at]) as moment
    from lined l
    semi join overlapping o on o.purchase = l.purchase
    where l.starts_at < l.ended_at
),
pieces as (
    select b.purchase, b.moment as starts_at, lead(b.moment) over (partition by b.purchase order by b.moment) as ends_at
    from (select distinct * from bounds) as b
),
covered as (
    select p.purchase, p.starts_at, p.ends_at, max(l.place) as place
    from pieces p
    join lined l on l.purchase = p.purchase and l.starts_at <= p.starts_at and l.ended_at >= p.ends_at
    group by all
),
islands as (
    select c.*,
        sum(if(c.before_place = c.place and c.ended_before = c.starts_at, 0, 1)) over (
            partition by c.purchase order by c.starts_at
        ) as island
    from (
        select *, lag(place) over piece as before_place, lag(ends_at) over piece as ended_before
        from covered
        window piece as (partition by purchase order by starts_at)
    ) as c
),
whole as (
    select l.purchase, l.place, l.starts_at as segment_start, l.ended_at as segment_end
    from lined l
    anti join overlapping o on o.purchase = l.purchase
    where l.starts_at < l.ended_at
    union all
    select i.purchase, any_value(i.place), min(i.starts_at), max(i.ends_at) from islands i group by i.purchase, i.island
),
-- As it was seen when it happened: a payment that was made good within the grace period belongs to the period before it
-- until it was made. So days that have passed do not change.
late as (
    select w.purchase, w.place, l.purchased_at, w.segment_start, w.segment_end,
        coalesce(
            lag(w.segment_end) over (partition by w.purchase order by w.segment_start) = w.segment_start
                and w.segment_start < l.purchased_at and l.purchased_at < w.segment_end,
            false
        ) as is_late
    from whole w
    join lined l on l.purchase = w.purchase and l.place = w.place
),
seen as (
    select purchase, place, if(is_late, purchased_at, segment_start) as segment_start,
        if(
            lead(is_late, 1, false) over (partition by purchase order by segment_start),
            lead(purchased_at) over (partition by purchase order by segment_start),
            segment_end
        ) as segment_end
    from late
)
select s.segment_start, s.segment_end, l.*
from seen s
join lined l on l.purchase = s.purchase and l.place = s.place;
----
-- Paid time. `follows`: without a gap after other paid time, which the `old_*` columns are about.
create or replace temp table running as
select r.*, coalesce(r.ended_before = r.segment_start, false) as follows,
    coalesce(r.next_start = r.segment_end, false) as is_followed
from (
    select s.*, lag(s.segment_end) over line as ended_before, lead(s.segment_start) over line as next_start,
        lag(s.currency) over line as old_currency, lag(s.level) over line as old_level,
        lag(s.dimensions) over line as old_dimensions
    from segments s
    where is_paid(s.type)
    window line as (partition by s.purchase order by s.segment_start)
) as r;
----
-- Another price or product without a gap.
create or replace temp table changes as
select c.*, growth(c.difference) as more, growth(c.opposite) as less
from (
    select r.*, minus(r.level, r.old_level) as difference, minus(r.old_level, r.level) as opposite
    from running r
    where r.follows
        and (r.currency <> r.old_currency or r.level <> r.old_level or r.dimensions <> r.old_dimensions)
) as c;
----
-- Paid time without a gap, and whether the customer came back with it: each stretch makes good for one that had ended
-- before. With the ends up to each start counted (`ended`), the number made good so far is `made_good`.
create or replace temp table stretches as
with begun as (
    select r.customer, r.sandbox, r.purchase, r.place, r.segment_start, r.environment, r.currency, r.level, r.dimensions,
        case
            when r.cause = 'conversion' or r.type_before = 'trial' then 2
            when r.type = 'intro' then 1
            else 0
        end as n,
        count(*) over (partition by r.customer, r.sandbox) as of_customer
    from running r
    where not r.follows
),
instants as (
    select b.customer, b.sandbox, b.purchase, b.segment_start as moment, 1 as is_start, b.segment_start, 0 as ended
    from begun b
    where b.of_customer > 1
    union all
    select r.customer, r.sandbox, null, r.segment_end, 0, null, 1
    from running r
    semi join begun b on b.customer = r.customer and b.of_customer > 1
    where not r.is_followed
),
counted as (
    select i.*, sum(i.ended) over passing as passed, sum(i.is_start) over passing as number
    from instants i
    window passing as (
        partition by i.customer, i.sandbox order by i.moment, i.is_start, i.purchase
        rows between unbounded preceding and current row
    )
),
made as (
    select c.*,
        c.number + least(0, min(c.passed - c.number) over (
            partition by c.customer, c.sandbox order by c.number rows between unbounded preceding and current row
        )) as made_good
    from counted c
    where c.is_start = 1
),
back as (
    select m.purchase, m.segment_start,
        m.made_good > lag(m.made_good, 1, 0) over (partition by m.customer, m.sandbox order by m.number) as is_return
    from made m
)
select b.*, coalesce(k.is_return, false) as is_return
from begun b
left join back k on k.purchase = b.purchase and k.segment_start = b.segment_start;
----
-- Renewals are numbered, and cohorts begin anew, after a gap and where the product changes. Prepaid time is bought again,
-- not renewed.
create or replace temp table renewals as
with followed as (
    select l.*, coalesce(is_paid(l.next_type) and l.next_starts_at <= l.access_ends_at, false) as is_followed
    from lined l
),
linked as (
    select f.*,
        coalesce(
            lag(f.type in ('normal', 'intro') and f.is_followed) over line
                and lag(f.dimensions.product) over line = f.dimensions.product,
            false
        ) as goes_on
    from followed f
    window line as (partition by f.purchase order by f.place)
),
chained as (
    select k.*, sum(if(k.goes_on, 0, 1)) over (partition by k.purchase order by k.place) as chain
    from linked k
)
select c.*, row_number() over line as number,
    sum(if(c.type = 'normal', 1, 0)) over line - 1 as standard,
    first(if(c.type = 'normal', c.purchased_at, null) ignore nulls) over line as cohort_at,
    first(if(c.type = 'normal', c.dimensions, null) ignore nulls) over line as cohort
from chained c
where c.type in ('normal', 'intro')
window line as (
    partition by c.purchase, c.chain order by c.place rows between unbounded preceding and current row
);
----
create or replace temp table facts (
    kind varchar, environment varchar, customer bigint, moment bigint, n integer, currency varchar, quantity bigint,
    micros bigint, tax bigint, commission bigint, usd bigint, tax_usd bigint, commission_usd bigint, unconverted integer,
    product varchar, duration varchar, store varchar, country varchar, platform varchar, app_version varchar,
    offering varchar, variants varchar, attributes varchar
);
----
insert into facts
with first_payments as (
    select s.customer, s.sandbox, min({'moment': s.purchased_at, 'purchase': s.purchase, 'place': s.place}) as first
    from sold s
    where s.micros <> 0 and s.side <> 2 and s.type <> 'shared'
    group by s.customer, s.sandbox
),
payments as (
    select s.*, if(f.first.purchase = s.purchase and f.first.place = s.place, 0, 1) as n
    from sold s
    join first_payments f on f.customer = s.customer and f.sandbox = s.sandbox
    where s.micros <> 0 and s.side <> 2 and s.type <> 'shared'
)
select 'payment', environment, customer, purchased_at, n, currency, 1, paid.*, dimensions.* from payments
union all
select 'refunded_payment', environment, customer, purchased_at, n, currency, 1, paid.*, dimensions.* from payments
where refunded_at is not null
union all
select 'refund', environment, customer, b[1], n, currency, b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], dimensions.*
from (select *, unnest(back) as b from payments where back is not null);
----
insert into facts
select 'active', environment, customer, segment_start, 0, currency, 1, level.*, dimensions.* from running
where not follows
union all
select 'active', environment, customer, segment_end, 0, currency, -1, unnest(negative(level)), dimensions.* from running
where not is_followed
union all
select 'churn', environment, customer, segment_end, 0, currency, 1, level.*, dimensions.* from running
where not is_followed
union all
select if(is_return, 'return', 'new'), environment, customer, segment_start, n, currency, 1, level.*, dimensions.*
from stretches
-- Another currency: the old amount is contraction, the new one expansion.
union all
select 'contraction', environment, customer, segment_start, 0, old_currency, 1, old_level.*, old_dimensions.* from changes
where currency <> old_currency
union all
select 'expansion', environment, customer, segment_start, 0, currency, 1, level.*, dimensions.* from changes
where currency <> old_currency
-- Another product, country or currency moves the level; another price changes it.
union all
select 'active', environment, customer, segment_start, 0, old_currency, -1, unnest(negative(old_level)), old_dimensions.*
from changes where currency <> old_currency or dimensions <> old_dimensions
union all
select 'active', environment, customer, segment_start, 0, currency, 1, level.*, dimensions.* from changes
where currency <> old_currency or dimensions <> old_dimensions
union all
select 'active', environment, customer, segment_start, 0, currency, 0, difference.*, dimensions.* from changes
where currency = old_currency and dimensions = old_dimensions
-- What is more is expansion of the new product, what is less is contraction of the old one. What both amounts have in
-- common moves from the old product to the new one.
union all
select 'expansion', environment, customer, segment_start, 0, currency, 0, more.*, dimensions.* from changes
where currency = old_currency
union all
select 'contraction', environment, customer, segment_start, 0, currency, 0, less.*, old_dimensions.* from changes
where currency = old_currency
union all
select 'expansion', environment, customer, segment_start, 1, currency, -1, unnest(minus(more, level)), old_dimensions.*
from changes where currency = old_currency and dimensions <> old_dimensions
union all
select 'expansion', environment, customer, segment_start, 1, currency, 1, unnest(minus(level, more)), dimensions.*
from changes where currency = old_currency and dimensions <> old_dimensions;
----
-- A trial that was converted early ends there, even if that payment is refunded while the trial would still run.
insert into facts
with trials as (
    select l.*, coalesce(s.segment_start, l.starts_at) as began_at, coalesce(s.segment_end, l.starts_at) as over_at,
        s.purchase is not null as ran,
        case
            when is_paid(l.next_type) then if(l.next_refunded_at is null, 1, 3)
            when l.next_type is not null or l.standing & 12 <> 0 then 2
            else 0
        end as fate
    from lined l
    left join (
        select purchase, place, min(segment_start) as segment_start, arg_min(segment_end, segment_start) as segment_end
        from segments where type = 'trial'
        group by purchase, place
    ) as s on s.purchase = l.purchase and s.place = l.place
    where l.type = 'trial'
)
select 'trial', environment, customer, began_at, 0, '', 1, unnest(no_money()), dimensions.* from trials where ran
union all
select 'trial', environment, customer, over_at, 0, '', -1, unnest(no_money()), dimensions.* from trials where ran
union all
select 'trial_started', environment, customer, began_at, fate, '', 1, unnest(no_money()), dimensions.* from trials
union all
select 'trial_ended', environment, customer, over_at, if(fate in (1, 3), 1, 2), '', 1, unnest(no_money()), dimensions.*
from trials;
----
-- From the newest period on: at every later moment the sum is the number of subscriptions that run then.
insert into facts
with standing as (
    select s.*,
        case
            when s.current_standing & 1 = 0 or s.current_refunded_at is not null then 1
            when s.current_standing & 2 <> 0 then 2
            else 0
        end as until_end,
        if(s.current_standing & 2 <> 0, 2, null) as beyond
    from segments s
    where s.segment_end > s.standing_since and s.type <> 'promotional'
),
parts as (
    select s.*, unnest(
        if(
            s.place = s.current_place and s.segment_start < s.current_ends_at and s.current_ends_at < s.segment_end
                and s.until_end <> coalesce(s.beyond, s.until_end),
            [
                {'n': s.until_end, 'starts': s.segment_start, 'ends': s.current_ends_at},
                {'n': s.beyond, 'starts': s.current_ends_at, 'ends': s.segment_end}
            ],
            [{'n': s.until_end, 'starts': s.segment_start, 'ends': s.segment_end}]
        )
    ) as part
    from standing s
),
counted as (
    select *, part.n + if(type = 'trial', 3, 0) as n, if(type = 'trial', '', currency) as shown_currency,
        if(type = 'trial', no_money(), level) as shown
    from parts
)
select 'status', environment, customer, part.starts, n, shown_currency, 1, shown.*, dimensions.* from counted
union all
select 'status', environment, customer, part.ends, n, shown_currency, -1, unnest(negative(shown)), dimensions.* from counted;
----
insert into facts
-- Due where paid time ends by itself: not after a refund, and not where another product took its place at once.
with due as (
    select *, least(number, 12) as n from renewals
    where (refunded_at is null or refunded_at >= ends_at) and not (is_followed and next_cause = 'change')
)
select 'renewal_due', environment, customer, ends_at, n, '', 1, unnest(no_money()), dimensions.* from due
union all
select 'renewed', environment, customer, ends_at, n, '', 1, unnest(no_money()), dimensions.* from due where is_followed
union all
-- The cohort keeps its size, whatever is refunded.
select 'retained', environment, customer, cohort_at, standard, '', 1, unnest(no_money()), cohort.* from renewals
where type = 'normal' and (standard = 0 or refunded_at is null)
union all
select 'retained_soon', environment, customer, cohort_at, standard + 1, '', 1, unnest(no_money()), cohort.* from renewals
where type = 'normal' and place = current_place and refunded_at is null and standing & 21 = 1;
----
-- One for each renewal that failed, however often the store tried.
insert into facts
with failed as (
    select l.*, f.next_starts_at as paid_at, f.paid as paid_next, f.currency as paid_in
    from (select * from lined where failed_at is not null) as l
    left join (
        select w.purchase, w.place, arg_min(n.starts_at, n.place) as next_starts_at, arg_min(n.paid, n.place) as paid,
            arg_min(n.currency, n.place) as currency
        from lined w
        join lined n on n.purchase = w.purchase and n.place > w.place and is_paid(n.type)
        where w.failed_at is not null
        group by w.purchase, w.place
    ) as f on f.purchase = l.purchase and f.place = l.place
)
select 'billing_issue', environment, customer, failed_at,
    case
        when paid_at is not null then if(paid_at <= access_ends_at, 1, 2)
        when current_standing & 12 <> 0 then 3
        when current_standing & 2 <> 0 then 0
        else 1
    end,
    coalesce(paid_in, currency), 1, unnest(coalesce(paid_next, owed, paid)), dimensions.*
from failed;
----
-- Customers, and what counts for them: what they bought in their own environment. What a customer who was erased had
-- bought is not of its next owner.
create or replace temp table seen as
select p.*, least(p.first_seen_at, b.first_at) as seen_at, coalesce(p.clock, if(b.sandbox, 'SANDBOX', 'PRODUCTION'))
    as environment, p.clock is not null or coalesce(b.sandbox, false) as is_sandbox
from people p
left join (
    select customer, min(purchased_at) as first_at, bool_and(sandbox) as sandbox from sold group by customer
) as b on b.customer = p.customer;
----
create or replace temp table bought as
with own as (
    select s.*, c.seen_at, c.enrollments, c.country as seen_country, c.platform as seen_platform,
        c.app_version as seen_version,
        first(if(s.type = 'promotional', '', s.dimensions.country)) over (
            partition by s.customer order by s.type = 'promotional', s.purchased_at, s.purchase, s.place
        ) as first_country
    from sold s
    join seen c on c.customer = s.customer and c.is_sandbox = s.sandbox
    where s.side <> 1 and s.type <> 'shared'
)
select o.* exclude (seen_country, seen_platform, seen_version, first_country),
    {
        'product': o.dimensions.product,
        'duration': o.dimensions.duration,
        'store': o.dimensions.store,
        'country': coalesce(nullif(o.seen_country, ''), o.first_country),
        'platform': o.seen_platform,
        'app_version': o.seen_version,
        'offering': o.dimensions.offering,
        'variants': if(o.enrollments is null, '', variants_until(o.enrollments, 9223372036854775807)),
        'attributes': o.dimensions.attributes
    } as own_dimensions
from own o;
----
insert into facts
select 'customer', c.environment, c.customer, c.seen_at, 0, '', 1, unnest(no_money()),
    '', '', '', coalesce(nullif(c.country, ''), b.country, ''), c.platform, c.app_version, '',
    if(c.enrollments is null, '', variants_until(c.enrollments, 9223372036854775807)), c.attributes
from seen c
left join (
    select customer, any_value(own_dimensions.country) as country from bought group by customer
) as b on b.customer = c.customer
union all
select 'paying_customer', f.environment, f.customer, f.purchased_at, 0, '', 1, unnest(no_money()), unnest(f.dimensions)
from (
    select arg_min(
        {'environment': environment, 'customer': customer, 'purchased_at': purchased_at, 'dimensions': dimensions},
        {'moment': purchased_at, 'purchase': purchase, 'place': place}
    ) as f
    from bought where micros <> 0
    group by customer
)
union all
select 'seen_revenue', environment, customer, seen_at, lifetime(purchased_at, seen_at), currency, 1, paid.*,
    own_dimensions.*
from bought where micros <> 0
union all
select 'seen_revenue', environment, customer, seen_at, lifetime(b[1], seen_at), currency, -b[2], -b[3], -b[4], -b[5],
    -b[6], -b[7], -b[8], -b[9], own_dimensions.*
from (select *, unnest(back) as b from bought where micros <> 0 and back is not null);
----
-- What a customer bought since being enrolled in an experiment. Nothing of it has a product: the question is what a variant
-- is worth, whatever was bought.
create or replace temp table enrolled as
with enrollments as (
    select c.customer, c.environment, c.platform, c.app_version, c.attributes,
        coalesce(nullif(c.country, ''), b.country, '') as country, unnest(c.enrollments) as e
    from seen c
    left join (
        select customer, any_value(own_dimensions.country) as country from bought group by customer
    ) as b on b.customer = c.customer
    where c.enrollments is not null
)
select e.customer, e.environment, e.e.moment as since,
    {
        'product': '', 'duration': '', 'store': '', 'country': e.country, 'platform': e.platform,
        'app_version': e.app_version, 'offering': '', 'variants': e.e.variant, 'attributes': e.attributes
    } as own_dimensions,
    b.purchase, b.place, b.purchased_at, b.type, b.currency, b.micros, b.paid, b.back
from enrollments e
left join bought b on b.customer = e.customer and b.purchased_at >= e.e.moment;
----
insert into facts
with moves as (
    select environment, customer, since, own_dimensions, lifetime(purchased_at, since) as n, currency, 1 as quantity,
        paid as amount
    from enrolled where micros <> 0
    union all
    select environment, customer, since, own_dimensions, lifetime(b[1], since), currency, -b[2],
        {
            'micros': -b[3], 'tax': -b[4], 'commission': -b[5], 'usd': -b[6], 'tax_usd': -b[7], 'commission_usd': -b[8],
            'unconverted': -b[9]
        }
    from (select *, unnest(back) as b from enrolled where micros <> 0 and back is not null)
),
-- In USD cents.
earned as (
    select environment, customer, since, own_dimensions, n,
        (round_even(sum(sum(amount.usd)) over line / 10000.0::double, 0)::bigint) ** 2 as square
    from moves
    group by environment, customer, since, own_dimensions, n
    window line as (partition by customer, since, own_dimensions order by n)
)
select distinct 'enrolled', environment, customer, since, 0, '', 1, unnest(no_money()), own_dimensions.* from enrolled
union all
select 'enrolled_revenue', environment, customer, since, n, currency, quantity, amount.*, own_dimensions.* from moves
union all
select 'enrolled_square', environment, customer, since, n, '',
    (square - lag(square, 1, 0) over (partition by customer, since, own_dimensions order by n))::bigint,
    unnest(no_money()), own_dimensions.*
from earned;
----
-- Whether a customer has anything that is not refunded, from when on. Within one millisecond, what was bought comes before
-- what was given back.
insert into facts
with held as (
    select 'seen_converted' as kind, environment, customer, seen_at as since, own_dimensions, '' as variant,
        purchased_at as moment, purchase, place, back
    from bought where type <> 'promotional'
    union all
    select 'seen_payer', environment, customer, seen_at, own_dimensions, '', purchased_at, purchase, place, back
    from bought where micros <> 0
    union all
    select 'enrolled_converted', environment, customer, since, own_dimensions, own_dimensions.variants, purchased_at,
        purchase, place, back
    from enrolled where type <> 'promotional'
    union all
    select 'enrolled_payer', environment, customer, since, own_dimensions, own_dimensions.variants, purchased_at,
        purchase, place, back
    from enrolled where micros <> 0
),
returned as (select distinct customer from bought where back is not null),
steps as (
    select h.* exclude (back), 1 as change from held h semi join returned r on r.customer = h.customer
    union all
    select h.* exclude (back, b) replace (h.b[1] as moment), -h.b[2]
    from (select *, unnest(back) as b from held where back is not null) as h
    where h.b[2] <> 0
),
counts as (
    select s.*, sum(s.change) over (
        partition by s.kind, s.customer, s.since, s.variant order by s.moment, -s.change, s.purchase, s.place
        rows between unbounded preceding and current row
    ) as held
    from steps s
),
turns as (
    select * exclude (own_dimensions), last(if(change = 1, own_dimensions, null) ignore nulls) over (
        partition by kind, customer, since, variant order by moment, -change, purchase, place
        rows between unbounded preceding and current row
    ) as own_dimensions
    from counts
    where (change = 1 and held = 1) or (change = -1 and held = 0)
)
select kind, environment, customer, since, lifetime(moment, since), '', change, unnest(no_money()), own_dimensions.* from turns
union all
select f.kind, f.environment, f.customer, f.since, lifetime(f.moment, f.since), '', 1, unnest(no_money()), unnest(f.own_dimensions)
from (
    select arg_min(
        {'kind': kind, 'environment': environment, 'customer': customer, 'since': since, 'moment': moment,
            'own_dimensions': own_dimensions},
        {'moment': moment, 'purchase': purchase, 'place': place}
    ) as f
    from held h anti join returned r on r.customer = h.customer
    group by kind, customer, since, variant
);
