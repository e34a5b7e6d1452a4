-- name: charts_progress
-- the head of a project's feed, and the progress of its charts
select f.position as head, coalesce(r.position, 0) as position, coalesce(r.rolled_to, 0) as rolled_to,
    coalesce(r.counted, 0) as counted, r.rebuilding
from feeds f
left join chart_rolls r on r.project_id = f.project_id
where f.project_id = $1;

-- name: chart_sums
-- the sums of a cuboid's cells over ranges of days and of months, by period and segment; one row of arrays
-- Arrays, because thousands of rows are usual and the driver reads arrays faster.
-- $4 to $11 are filters, $12 and $13 the segment. $18 and $19: only cells with such a variant or attribute, by it. The
-- ranges with `levels` are of the kinds $15 only; everything before the day $16 is one period, null.
with cells as materialized (
    select d.id,
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
        end as segment,
        coalesce((
            select substr(v.one, length($19::text) + 1)
            from unnest(case $18::text when 'variants' then d.variants else d.attributes end) as v (one)
            where starts_with(v.one, $19::text)
            limit 1
        ), '') as tag
    from chart_dimensions d
    where d.project_id || '' = $1 and d.environment = $2 and d.cuboid = $3
        and ($18::text = '' or exists (
            select from unnest(case $18::text when 'variants' then d.variants else d.attributes end) as v (one)
            where starts_with(v.one, $19::text)
        ))
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
),
by_day as (
    select s.kind, s.n, greatest(s.day, $16 - 1) as day, c.segment, c.tag, s.currency,
        sum(s.quantity)::bigint as quantity, sum(s.micros)::bigint as micros, sum(s.tax)::bigint as tax,
        sum(s.commission)::bigint as commission, sum(s.usd)::bigint as usd, sum(s.tax_usd)::bigint as tax_usd,
        sum(s.commission_usd)::bigint as commission_usd, sum(s.unconverted)::bigint as unconverted
    from cells c
    cross join lateral (
        select k.kind, k.n, k.day, k.currency, k.quantity, k.micros, k.tax, k.commission, k.usd, k.tax_usd, k.commission_usd,
            k.unconverted
        from unnest($20::integer[], $21::integer[], $22::boolean[]) as r (first, last, levels)
        cross join lateral (
            select * from chart_days s
            where s.project_id = $1 and s.cell = c.id
                and s.kind = any(case when r.levels then $15::smallint[] else $14::smallint[] end)
                and s.day >= r.first and s.day <= r.last
            offset 0
        ) as k
        union all
        select k.kind, k.n, k.day, k.currency, k.quantity, k.micros, k.tax, k.commission, k.usd, k.tax_usd, k.commission_usd,
            k.unconverted
        from unnest($23::integer[], $24::integer[], $25::boolean[]) as r (first, last, levels)
        cross join lateral (
            select * from chart_months s
            where s.project_id = $1 and s.cell = c.id
                and s.kind = any(case when r.levels then $15::smallint[] else $14::smallint[] end)
                and s.day >= r.first and s.day <= r.last
            offset 0
        ) as k
    ) as s
    group by 1, 2, 3, 4, 5, 6
),
by_period as (
    select b.kind, b.n,
        case
            when b.day < $16 then null
            when $17 = 'day' then b.day
            when $17 = 'week' then b.day - (b.day + 4) % 7
            else date_trunc('month', date '1970-01-01' + b.day)::date - date '1970-01-01'
        end as period,
        b.segment, b.tag, b.currency,
        coalesce(sum(b.quantity), 0)::bigint as quantity, coalesce(sum(b.micros), 0)::bigint as micros,
        coalesce(sum(b.tax), 0)::bigint as tax, coalesce(sum(b.commission), 0)::bigint as commission,
        coalesce(sum(b.usd), 0)::bigint as usd, coalesce(sum(b.tax_usd), 0)::bigint as tax_usd,
        coalesce(sum(b.commission_usd), 0)::bigint as commission_usd,
        coalesce(sum(b.unconverted), 0)::bigint as unconverted
    from by_day b
    group by 1, 2, 3, 4, 5, 6
)
select array_agg(p.kind) as kinds, array_agg(p.n) as ns, array_agg(p.period) as periods, array_agg(p.segment) as segments,
    array_agg(p.currency) as currencies, array_agg(p.quantity) as quantities, array_agg(p.micros) as micros,
    array_agg(p.tax) as tax, array_agg(p.commission) as commission, array_agg(p.usd) as usd,
    array_agg(p.tax_usd) as tax_usd, array_agg(p.commission_usd) as commission_usd,
    array_agg(p.unconverted) as unconverted, array_agg(p.tag) as tags
from by_period p
where p.quantity <> 0 or p.micros <> 0 or p.tax <> 0 or p.commission <> 0 or p.usd <> 0 or p.tax_usd <> 0
    or p.commission_usd <> 0 or p.unconverted <> 0;

-- name: chart_rest
-- the sums of what is in no cell yet: the tail, and facts whose time has come since; for a test clock all facts
-- $3 is a test clock or ''. The other parameters are those of chart_sums; $15 is the last day and $18 the time.
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
        b.segment, '' as tag, b.currency,
        coalesce(sum(b.quantity), 0)::bigint as quantity, coalesce(sum(b.micros), 0)::bigint as micros,
        coalesce(sum(b.tax), 0)::bigint as tax, coalesce(sum(b.commission), 0)::bigint as commission,
        coalesce(sum(b.usd), 0)::bigint as usd, coalesce(sum(b.tax_usd), 0)::bigint as tax_usd,
        coalesce(sum(b.commission_usd), 0)::bigint as commission_usd,
        coalesce(sum(b.unconverted), 0)::bigint as unconverted
    from by_day b
    group by 1, 2, 3, 4, 6
)
select array_agg(p.kind) as kinds, array_agg(p.n) as ns, array_agg(p.period) as periods, array_agg(p.segment) as segments,
    array_agg(p.currency) as currencies, array_agg(p.quantity) as quantities, array_agg(p.micros) as micros,
    array_agg(p.tax) as tax, array_agg(p.commission) as commission, array_agg(p.usd) as usd,
    array_agg(p.tax_usd) as tax_usd, array_agg(p.commission_usd) as commission_usd,
    array_agg(p.unconverted) as unconverted, array_agg(p.tag) as tags
from by_period p
where p.quantity <> 0 or p.micros <> 0 or p.tax <> 0 or p.commission <> 0 or p.usd <> 0 or p.tax_usd <> 0
    or p.commission_usd <> 0 or p.unconverted <> 0;

-- name: chart_clock
-- the time of a test clock
select t.now_ms from test_clocks t where t.project_id = $1 and t.id = $2;

-- name: chart_values
-- the values of a dimension, the most frequent first
-- By the number of days with facts: a day has few rows for each value, however many facts it has.
select coalesce(v.value, '') as value
from chart_dimensions d
cross join lateral (
    select case $3::text
        when 'product' then d.product
        when 'duration' then d.duration
        when 'store' then d.store
        when 'country' then d.country
        when 'platform' then d.platform
        when 'app_version' then d.app_version
        when 'offering' then d.offering
        when 'variants' then d.variants[1]
        else d.attributes[1]
    end as value
) as v
left join lateral (
    select count(*) as rows from (
        select from chart_days s where s.project_id = $1 and s.cell = d.id order by s.kind, s.day limit 20000
    ) as k
) as used on $5 <> 0
where d.project_id || '' = $1 and d.environment = $2 and d.cuboid = $5 and ($4::text = '' or starts_with(v.value, $4::text))
group by 1
order by max(used.rows) desc nulls last, 1
limit $6;

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
