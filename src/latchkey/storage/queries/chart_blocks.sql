-- name: take_chart_tail
-- empty a project's tail; what was in it, as one row of arrays
with moved as (
    delete from chart_tail t where t.project_id = $1 returning t.*
),
summed as (
    select m.kind, m.dimension, m.day, m.n, m.currency,
        sum(m.quantity)::bigint as quantity, sum(m.micros)::bigint as micros, sum(m.tax)::bigint as tax,
        sum(m.commission)::bigint as commission, sum(m.usd)::bigint as usd, sum(m.tax_usd)::bigint as tax_usd,
        sum(m.commission_usd)::bigint as commission_usd, sum(m.unconverted)::bigint as unconverted
    from moved m
    group by 1, 2, 3, 4, 5
)
select array_agg(s.kind) as kinds, array_agg(s.dimension) as dimensions, array_agg(s.day) as days, array_agg(s.n) as ns,
    array_agg(s.currency) as currencies, array_agg(s.quantity) as quantities, array_agg(s.micros) as micros,
    array_agg(s.tax) as tax, array_agg(s.commission) as commission, array_agg(s.usd) as usd,
    array_agg(s.tax_usd) as tax_usd, array_agg(s.commission_usd) as commission_usd,
    array_agg(s.unconverted) as unconverted
from summed s;

-- name: chart_dimensions_by_id
-- what these numbers of combinations of dimensions stand for
select asked.id, d.environment, d.product, d.duration, d.store, d.country, d.platform, d.app_version, d.offering,
    d.variants, d.attributes
from unnest($2::integer[]) as asked (id)
cross join lateral (
    select k.environment, k.product, k.duration, k.store, k.country, k.platform, k.app_version, k.offering, k.variants,
        k.attributes
    from chart_dimensions k
    where k.project_id = $1 and k.id = asked.id
    order by k.project_id, k.id
    limit 1
) as d;

-- name: list_chart_blocks
-- the blocks of a project, of one cuboid and of one kind if asked, the newest first; without their data
select b.environment, b.kind, b.cuboid, b.run, b.rows, b.first_day, b.last_day from chart_blocks b
where b.project_id = $1 and ($2::smallint is null or b.cuboid = $2) and ($3::smallint is null or b.kind = $3)
order by b.run desc;

-- name: load_chart_blocks
-- header and data of these blocks, and which of them they are of
select asked.place, b.header, b.data
from unnest($2::smallint[], $3::text[], $4::smallint[], $5::bigint[]) with ordinality
    as asked (cuboid, environment, kind, run, place)
cross join lateral (
    select k.header, k.data from chart_blocks k
    where k.project_id = $1 and k.cuboid = asked.cuboid and k.environment = asked.environment and k.kind = asked.kind
        and k.run = asked.run
    order by k.project_id, k.cuboid, k.environment, k.kind, k.run
    limit 1
) as b;

-- name: replace_chart_blocks
-- delete blocks that were merged, and store new ones
with gone as (
    delete from chart_blocks b
    where b.ctid = any(array(
        select k.ctid
        from unnest($2::smallint[], $3::text[], $4::smallint[], $5::bigint[]) as old (cuboid, environment, kind, run)
        cross join lateral (
            select c.ctid from chart_blocks c
            where c.project_id = $1 and c.cuboid = old.cuboid and c.environment = old.environment and c.kind = old.kind
                and c.run = old.run
            order by c.project_id, c.cuboid, c.environment, c.kind, c.run
            limit 1
        ) as k
    ))
)
-- Numbered by project, which is locked.
insert into chart_blocks (
    project_id, run, environment, kind, cuboid, rows, first_day, last_day, quantity, header, data
)
select $1, (select coalesce(max(b.run), 0) from chart_blocks b where b.project_id = $1) + row_number() over (),
    n.environment, n.kind, n.cuboid, n.rows, n.first_day, n.last_day, n.quantity, n.header, n.data
from unnest(
    $6::text[], $7::smallint[], $8::smallint[], $9::integer[], $10::integer[], $11::integer[], $12::bigint[],
    $13::bytea[], $14::bytea[]
) as n (environment, kind, cuboid, rows, first_day, last_day, quantity, header, data);

-- name: read_chart_blocks
-- the blocks with facts in ranges of days, each range of one cuboid; without their data
-- Ranges with `levels` are of the kinds $4 only, the others of the kinds $3.
select b.kind, b.cuboid, b.run, b.first_day, b.last_day, b.header
from (
    select distinct a.cuboid from unnest($5::smallint[]) as a (cuboid)
) as asked
cross join lateral (
    select k.kind, k.cuboid, k.run, k.first_day, k.last_day, k.header from chart_blocks k
    where k.project_id = $1 and k.cuboid = asked.cuboid and k.environment = $2 and k.kind = any($3::smallint[])
        and exists (
            select from unnest($5::smallint[], $6::integer[], $7::integer[], $8::boolean[])
                as r (cuboid, first, last, levels)
            where r.cuboid = k.cuboid and k.first_day <= r.last and k.last_day >= r.first
                and (not r.levels or k.kind = any($4::smallint[]))
        )
    offset 0
) as b;

-- name: read_chart_spans
-- some of the bytes of blocks; PostgreSQL does not read those between them
select asked.place, substring(b.data from asked.first for asked.length) as data
from unnest($3::smallint[], $4::smallint[], $5::bigint[], $6::integer[], $7::integer[]) with ordinality
    as asked (cuboid, kind, run, first, length, place)
cross join lateral (
    select k.data from chart_blocks k
    where k.project_id = $1 and k.cuboid = asked.cuboid and k.environment = $2 and k.kind = asked.kind
        and k.run = asked.run
    order by k.project_id, k.cuboid, k.environment, k.kind, k.run
    limit 1
) as b;

-- name: charts_folded
-- the tail of a project is in blocks now
update chart_rolls r set tail = 0, folded_at = $2 where r.project_id = $1;
