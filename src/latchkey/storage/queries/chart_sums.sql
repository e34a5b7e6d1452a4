-- name: charts_progress
-- the head of a project's feed, and the progress of its charts
select f.position as head, coalesce(r.position, 0) as position, coalesce(r.rolled_to, 0) as rolled_to,
    coalesce(r.counted, 0) as counted, r.rebuilding
from feeds f
left join chart_rolls r on r.project_id = f.project_id
where f.project_id = $1;

-- name: chart_rest
-- the sums of what is in no block yet: the tail, and facts whose time has come since; for a test clock all facts
-- One row of arrays, which the driver reads faster than rows. $3 is a test clock or ''. $4 to $11 are filters, $12 and $13
-- the segment; $15 is the last day and $18 the time. Everything before the day $16 is one period, null.
with rest as materialized (
    select t.kind, t.n, t.day, t.currency, t.dimension, t.quantity, t.micros, t.tax, t.commission,
        t.usd, t.tax_usd, t.commission_usd, t.unconverted
    from chart_tail t
    where t.project_id = $1 and t.kind = any($14::smallint[]) and t.day <= $15 and $3::text = ''
    union all
    select a.kind, a.n, (a.at / 86400000)::integer, a.currency, a.dimension, a.quantity, a.micros, a.tax, a.commission,
        a.usd, a.tax_usd, a.commission_usd, a.unconverted
    from chart_ahead a
    where a.project_id = $1 and a.clock = $3::text and a.at <= $18 and a.at < ($15::bigint + 1) * 86400000
        and a.kind = any($14::smallint[])
),
by_day as (
    select r.kind, r.n, greatest(r.day, $16 - 1) as day, c.segment, r.currency,
        sum(r.quantity)::bigint as quantity, sum(r.micros)::bigint as micros, sum(r.tax)::bigint as tax,
        sum(r.commission)::bigint as commission, sum(r.usd)::bigint as usd, sum(r.tax_usd)::bigint as tax_usd,
        sum(r.commission_usd)::bigint as commission_usd, sum(r.unconverted)::bigint as unconverted
    from (
        select q.kind, q.n, q.day, q.currency, q.dimension,
            sum(q.quantity)::bigint as quantity, sum(q.micros)::bigint as micros, sum(q.tax)::bigint as tax,
            sum(q.commission)::bigint as commission, sum(q.usd)::bigint as usd, sum(q.tax_usd)::bigint as tax_usd,
            sum(q.commission_usd)::bigint as commission_usd, sum(q.unconverted)::bigint as unconverted
        from rest q
        group by 1, 2, 3, 4, 5
    ) as r
    cross join lateral (
        select
        case $12::text
            when '' then ''
            when 'product' then d.product
            when 'duration' then d.duration
            when 'store' then d.store
            when 'country' then d.country
            when 'platform' then d.platform
            when 'app_version' then d.app_version
            when 'offering' then d.offering
            else coalesce((
                select substr(v.one, length($13::text) + 1)
                from unnest(case $12::text when 'variants' then d.variants else d.attributes end) as v (one)
                where starts_with(v.one, $13::text)
                limit 1
            ), '')
        end as segment
        from chart_dimensions d
        where d.project_id = $1 and d.id = r.dimension and d.environment || '' = $2
        and ($4::text[] is null or d.product = any($4))
        and ($5::text[] is null or d.duration = any($5))
        and ($6::text[] is null or d.store = any($6))
        and ($7::text[] is null or d.country = any($7))
        and ($8::text[] is null or d.platform = any($8))
        and ($9::text[] is null or d.app_version = any($9))
        and ($10::text[] is null or d.offering = any($10))
        and not exists (
            select from json_to_recordset($11::text::json) as f (tag text, prefix text, allowed text[], bare boolean)
            where not (
                case f.tag when 'variants' then d.variants else d.attributes end && f.allowed
                or f.bare and not exists (
                    select from unnest(case f.tag when 'variants' then d.variants else d.attributes end) as v (one)
                    where starts_with(v.one, f.prefix)
                )
            )
        )
        order by d.project_id, d.id
        limit 1
    ) as c
    group by 1, 2, 3, 4, 5
),
by_period as (
    select b.kind, b.n,
        case
            when b.day < $16 then null
            when $17 = 'day' then b.day
            when $17 = 'week' then b.day - (b.day + 4) % 7
            else date_trunc('month', date '1970-01-01' + b.day)::date - date '1970-01-01'
        end as period,
        b.segment, b.currency,
        coalesce(sum(b.quantity), 0)::bigint as quantity, coalesce(sum(b.micros), 0)::bigint as micros,
        coalesce(sum(b.tax), 0)::bigint as tax, coalesce(sum(b.commission), 0)::bigint as commission,
        coalesce(sum(b.usd), 0)::bigint as usd, coalesce(sum(b.tax_usd), 0)::bigint as tax_usd,
        coalesce(sum(b.commission_usd), 0)::bigint as commission_usd,
        coalesce(sum(b.unconverted), 0)::bigint as unconverted
    from by_day b
    group by 1, 2, 3, 4, 5
)
select array_agg(p.kind) as kinds, array_agg(p.n) as ns, array_agg(p.period) as periods, array_agg(p.segment) as segments,
    array_agg(p.currency) as currencies, array_agg(p.quantity) as quantities, array_agg(p.micros) as micros,
    array_agg(p.tax) as tax, array_agg(p.commission) as commission, array_agg(p.usd) as usd,
    array_agg(p.tax_usd) as tax_usd, array_agg(p.commission_usd) as commission_usd,
    array_agg(p.unconverted) as unconverted
from by_period p
where p.quantity <> 0 or p.micros <> 0 or p.tax <> 0 or p.commission <> 0 or p.usd <> 0 or p.tax_usd <> 0
    or p.commission_usd <> 0 or p.unconverted <> 0;

-- name: chart_clock
-- the time of a test clock
select t.now_ms from test_clocks t where t.project_id = $1 and t.id = $2;

-- name: chart_values
-- the values of a dimension of facts that are in no block: on a test clock ($2) all facts, otherwise those of the tail
with used as (
    select t.dimension as id from chart_tail t where t.project_id = $1 and $3::text = ''
    union
    select a.dimension from chart_ahead a where a.project_id = $1 and a.clock = $3::text and $3::text <> ''
)
select v.value, count(*) as uses
from used u
cross join lateral (
    select case $4::text
        when 'product' then array[k.product]
        when 'duration' then array[k.duration]
        when 'store' then array[k.store]
        when 'country' then array[k.country]
        when 'platform' then array[k.platform]
        when 'app_version' then array[k.app_version]
        when 'offering' then array[k.offering]
        when 'variants' then k.variants
        else k.attributes
    end as names
    from chart_dimensions k
    where k.project_id = $1 and k.id = u.id and k.environment || '' = $2
    order by k.project_id, k.id
    limit 1
) as d
cross join lateral unnest(d.names) as v (value)
group by 1;

-- name: chart_menu
-- what the pages of a project's charts offer: its attributes, and in which environments anything was bought
select coalesce((select p.chart_attributes from projects p where p.id = $1), '{}') as attributes,
    exists (
        select from chart_dimensions d
        where d.project_id || '' = $1 and d.environment = 'PRODUCTION' and d.cuboid = 0 and d.store <> ''
    ) as production,
    exists (
        select from chart_dimensions d
        where d.project_id || '' = $1 and d.environment = 'SANDBOX' and d.cuboid = 0 and d.store <> ''
    ) as sandbox;
