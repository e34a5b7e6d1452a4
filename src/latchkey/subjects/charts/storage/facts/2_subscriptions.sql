-- What follows from the periods of each subscription.
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
    select s.id, s.customer, s.sandbox, s.purchase, s.place, s.type, s.cause, s.purchased_at, s.starts_at, s.ends_at,
        s.access_ends_at, s.refunded_at, s.standing, s.told_at, s.failed_at, s.grace_ends_at, s.thing, s.origin,
        s.product, s.level,
        lag(s.type) over line as type_before, lag(s.access_ends_at) over line as access_before,
        lag(s.product) over line as product_before, lead(s.type) over line as next_type,
        lead(s.cause) over line as next_cause, lead(s.starts_at) over line as next_starts_at,
        lead(s.purchased_at) over line as next_purchased_at, lead(s.refunded_at) over line as next_refunded_at
    from sold s
    where s.side <> 2 and s.type not in ('one_time', 'shared')
    window line as (partition by s.purchase order by s.place)
) as n;
----
-- When which period counts. Where two overlap, the later one does; then one period may have several segments. Until a late
-- payment within the grace period, the period before it goes on: so days that have passed do not change.
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
select l.*, l.starts_at as segment_start, l.ended_at as segment_end
from lined l
anti join uneven u on u.purchase = l.purchase
where l.starts_at < l.ended_at;
----
-- Only if: from uneven
insert into segments
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
join bent b on b.purchase = s.purchase and b.place = s.place;
----
-- Paid time. `follows`: without a gap after other paid time, which `old_id` is about.
create or replace temp table running as
select r.*, coalesce(r.ended_before = r.segment_start, false) as follows,
    coalesce(r.next_start = r.segment_end, false) as is_followed
from (
    select s.id, s.customer, s.sandbox, s.purchase, s.type, s.cause, s.type_before, s.segment_start, s.segment_end, s.thing,
        s.origin, s.level, lag(s.segment_end) over line as ended_before, lead(s.segment_start) over line as next_start,
        lag(s.level) over line as old_level, lag(s.id) over line as old_id
    from segments s
    where is_paid(s.type)
    window line as (partition by s.purchase order by s.segment_start)
) as r;
----
-- How the newest period stands, for all that runs from then on: at every later moment the sum is the number of
-- subscriptions that run then. After a failed payment, nothing but a payment helps once the paid time is over.
create or replace temp table parts as
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
)
select s.id, s.customer, s.type = 'trial' as is_trial, s.thing, s.origin, unnest(
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
from standing s;
----
create or replace temp table levels as
select s.id, s.currency, s.thing, s.origin,
    if(s.micros = 0, no_money(), money(s.monthly_micros, s.monthly_usd, s.tax, s.commission)) as price
from sold s
where s.id in (
    select id from running where not follows or not is_followed or level <> old_level
    union all
    select old_id from running where follows and level <> old_level
    union all
    select id from parts where not is_trial
);
----
-- Only if: from running where follows and level <> old_level
-- Another price or product without a gap.
create or replace temp table changes as
select c.*, 5 * row_number() over () as number, growth(c.difference) as more, growth(c.opposite) as less,
    c.thing <> c.old_thing or c.origin <> c.old_origin or not c.is_same_currency as moves
from (
    select r.id, r.old_id, r.customer, r.segment_start as moment, n.currency, n.thing, n.origin, n.price,
        o.thing as old_thing, o.origin as old_origin, n.currency = o.currency as is_same_currency,
        minus(n.price, o.price) as difference, minus(o.price, n.price) as opposite
    from running r
    join levels n on n.id = r.id
    join levels o on o.id = r.old_id
    where r.follows and r.level <> r.old_level
) as c;
----
insert into amounts select 3 * id + 1, currency, unnest(price) from levels;
----
-- Only if: from running where follows and level <> old_level
-- Of a change: the difference, what is more, what is less, and what both have in common.
insert into amounts
select -1 - number, currency, unnest(difference) from changes
union all
select -2 - number, currency, unnest(more) from changes
union all
select -3 - number, currency, unnest(less) from changes
union all
select -4 - number, currency, unnest(minus(price, more)) from changes;
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
select if(coalesce(k.is_return, false), 'return', 'new') as kind, b.customer, b.segment_start as moment,
    case
        when b.cause = 'conversion' or b.type_before = 'trial' then 2
        when b.type = 'intro' then 1
        else 0
    end as n,
    b.id, b.thing, b.origin
from begun b
left join back k on k.id = b.id and k.moment = b.segment_start;
----
insert into fact_rows
select 'active', customer, segment_start, 0, 1, 1, 3 * id + 1, thing, origin from running where not follows
union all
select 'active', customer, segment_end, 0, -1, -1, 3 * id + 1, thing, origin from running where not is_followed
union all
select 'churn', customer, segment_end, 0, 1, 1, 3 * id + 1, thing, origin from running where not is_followed
union all
select kind, customer, moment, n, 1, 1, 3 * id + 1, thing, origin from stretches
union all
select 'status', customer, part.starts, part.n + if(is_trial, 3, 0), 1, 1, if(is_trial, 0, 3 * id + 1), thing, origin
from parts
union all
select 'status', customer, part.ends, part.n + if(is_trial, 3, 0), -1, -1, if(is_trial, 0, 3 * id + 1), thing, origin
from parts;
----
-- Only if: from running where follows and level <> old_level
-- Another product, country or currency moves the level; another price changes it.
insert into fact_rows
select 'active', customer, moment, 0, -1, -1, 3 * old_id + 1, old_thing, old_origin from changes where moves
union all
select 'active', customer, moment, 0, 1, 1, 3 * id + 1, thing, origin from changes where moves
union all
select 'active', customer, moment, 0, 0, 1, -1 - number, thing, origin from changes where not moves
-- In another currency the old amount is contraction, the new one expansion. Else what is more is expansion of the new
-- product, what is less is contraction of the old one, and what both have in common moves from the old one to the new.
union all
select 'expansion', customer, moment, 0, if(is_same_currency, 0, 1), 1, if(is_same_currency, -2 - number, 3 * id + 1),
    thing, origin
from changes
union all
select 'contraction', customer, moment, 0, if(is_same_currency, 0, 1), 1,
    if(is_same_currency, -3 - number, 3 * old_id + 1), old_thing, old_origin
from changes
union all
select 'expansion', customer, moment, 1, -1, -1, -4 - number, old_thing, old_origin
from changes where moves and is_same_currency
union all
select 'expansion', customer, moment, 1, 1, 1, -4 - number, thing, origin from changes where moves and is_same_currency;
----
-- Only if: from lined where type = 'trial'
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
select 'trial', customer, began_at, 0, 1, 0, 0, thing, origin from trials where ran
union all
select 'trial', customer, over_at, 0, -1, 0, 0, thing, origin from trials where ran
union all
select 'trial_started', customer, began_at, fate, 1, 0, 0, thing, origin from trials
union all
select 'trial_ended', customer, over_at, if(fate in (1, 3), 1, 2), 1, 0, 0, thing, origin from trials;
----
-- Renewals are numbered, and cohorts begin anew, where a chain of them begins. A renewal is due where paid time ends by
-- itself, not by a refund or another product. A cohort keeps its size, whatever is refunded.
insert into fact_rows
with chained as (
    select l.id, l.customer, l.purchase, l.place, l.type, l.purchased_at, l.ends_at, l.refunded_at, l.standing, l.next_type,
        l.next_cause, l.renews, l.is_followed, l.thing, l.origin,
        max(if(l.goes_on, null, l.place)) over (
            partition by l.purchase order by l.place rows between unbounded preceding and current row
        ) as first_place
    from lined l
),
numbered as (
    select c.*, row_number() over chain - 1 as standard, first(c.purchased_at) over chain as cohort_at,
        first(c.thing) over chain as cohort, first(c.origin) over chain as cohort_origin
    from chained c
    where c.type = 'normal'
    window chain as (partition by c.purchase, c.first_place order by c.place)
),
due as (
    select *, least(place - first_place + 1, 12) as n from chained
    where renews and (refunded_at is null or refunded_at >= ends_at) and not (is_followed and next_cause = 'change')
)
select 'renewal_due', customer, ends_at, n, 1, 0, 0, thing, origin from due
union all
select 'renewed', customer, ends_at, n, 1, 0, 0, thing, origin from due where is_followed
union all
select 'retained', customer, cohort_at, standard, 1, 0, 0, cohort, cohort_origin
from numbered where standard = 0 or refunded_at is null
union all
select 'retained_soon', customer, cohort_at, standard + 1, 1, 0, 0, cohort, cohort_origin
from numbered where next_type is null and refunded_at is null and standing & 21 = 1;
----
-- Only if: from lined where failed_at is not null
-- One for each renewal that failed, however often the store tried. What was to be paid is the price of the payment that
-- followed, or of the failed one; of what cost nothing it is the price of the product.
create or replace temp table failed as
select l.id, any_value(c.standing) as standing, arg_min(n.starts_at, n.place) as paid_at,
    coalesce(arg_min(n.id, n.place), l.id) as wanted
from lined l
join lined c on c.purchase = l.purchase and c.next_type is null
left join lined n on n.purchase = l.purchase and n.place > l.place and is_paid(n.type)
where l.failed_at is not null
group by l.id;
----
-- Only if: from lined where failed_at is not null
insert into amounts
select 3 * s.id + 2, s.currency, unnest(money(s.monthly_micros, s.monthly_usd, s.tax, s.commission))
from sold s
where s.micros = 0 and s.id in (select wanted from failed where paid_at is null);
----
-- Only if: from lined where failed_at is not null
insert into fact_rows
select 'billing_issue', s.customer, s.failed_at,
    case
        when f.paid_at is not null then if(f.paid_at <= s.access_ends_at, 1, 2)
        when f.standing & 12 <> 0 then 3
        when f.standing & 2 <> 0 then 0
        else 1
    end,
    1, 1, 3 * f.wanted + if(w.micros = 0 and f.paid_at is null, 2, 0), s.thing, s.origin
from failed f
join sold s on s.id = f.id
join sold w on w.id = f.wanted;
