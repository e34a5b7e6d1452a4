"""Synthetic facts for the benchmark of the charts, made by the database itself, and the sums of them.

`MILLIONS` payments of subscribers who came over three years. Dimensions are believable: 8 products with 4 durations, 4
stores on 3 platforms, 60 countries by Zipf's law, 40 app versions one after the other, 4 offerings, 2 experiments. Each
payment gives four facts, each subscriber six more.
"""

from __future__ import annotations

from itertools import accumulate

from bench.table import say
from latchkey.domain.charts.cuboids import CUBOIDS, Cuboid
from latchkey.domain.charts.fact import Kind
from latchkey.domain.charts.sums import Day
from latchkey.storage.charts.kinds import CODES
from latchkey.storage.database import Connection

DAYS = 1095
COUNTRIES = 60
COLUMNS = ("product", "duration", "store", "country", "platform", "app_version", "offering")
SUMS = "sum(quantity), nullif(sum(micros), 0), nullif(sum(usd), 0)"
INTO = "project_id, cell, kind, day, n, currency, quantity, micros, usd"


async def fill(connection: Connection, project_id: str, payments: int, today: Day) -> int:
    """Returns how many payments there are."""
    await connection.execute(
        "set enable_hashjoin = on; set enable_mergejoin = on; set enable_seqscan = on; set work_mem = '512MB';"
        "set plan_cache_mode = auto; set synchronous_commit = off; set statement_timeout = 0;"
        "select setseed(0.17)"
    )
    await _subscribers(connection, payments, today)
    made: int = await connection.fetchval("select sum(payments) from bench_subscribers")
    await _facts(connection, today)
    await _cells(connection, project_id)
    for cuboid in (None, *CUBOIDS):
        await _sum(connection, project_id, cuboid)
    say("analyse")
    await connection.execute("analyze chart_days; analyze chart_months; analyze chart_dimensions")
    return made


async def _subscribers(connection: Connection, payments: int, today: Day) -> None:
    say(f"{payments:,} payments: subscribers")
    weights = [1 / (n + 1) for n in range(COUNTRIES)]
    shares = [round(one / sum(weights), 6) for one in accumulate(weights)][:-1]
    # 40 % monthly and yearly ones run on; a month is survived by 92 of 100.
    await connection.execute(f"""
        create unlogged table bench_subscribers as
        select i, start, product, length, price, store, country, version, offering, a, b,
            1 + least(
                ({today} - start) / length, floor(ln(stay) / ln(case when length > 100 then 0.6 else 0.92 end))::int
            ) as payments
        from (
            select i, {today - DAYS} + (sqrt(random()) * {DAYS})::int as start,
                width_bucket(random(), array[0.35, 0.55, 0.7, 0.8, 0.88, 0.94, 0.98]::float8[]) as product,
                width_bucket(random(), array[0.5, 0.8, 0.95]::float8[]) as store,
                width_bucket(random(), array{shares}::float8[]) as country,
                least(5, floor(-ln(random())))::int as lag,
                width_bucket(random(), array[0.6, 0.8, 0.95]::float8[]) as offering,
                width_bucket(random(), array[0.7, 0.85]::float8[]) as a,
                width_bucket(random(), array[0.8, 0.9]::float8[]) as b,
                random() as stay
            from generate_series(1, {payments // 6}) as i
        ) as s
        cross join lateral (select greatest(0, (start - {today - DAYS}) * 40 / {DAYS} - lag) as version) as v
        cross join lateral (
            select (array[30, 30, 365, 30, 7, 180, 30, 365])[product + 1] as length,
                (array[9.99, 4.99, 59.99, 14.99, 2.99, 39.99, 19.99, 99.99])[product + 1] * 1000000 as price
        ) as p
        where start < {today}
    """)


async def _facts(connection: Connection, today: Day) -> None:
    say("facts")
    key = "product, store, country, version, offering, a, b"
    await connection.execute(f"""
        create unlogged table bench_full as
        select row_number() over () as id, {key} from (select distinct {key} from bench_subscribers) as s
    """)
    of = {kind: CODES[kind] for kind in Kind}
    await connection.execute(f"""
        create unlogged table bench_facts as
        select f.id::int as dimension, t.kind::smallint as kind, t.day, t.n::smallint as n, m.currency,
            sum(t.quantity)::bigint as quantity, sum(t.quantity * t.money * m.rate)::bigint as micros,
            sum(t.quantity * t.money)::bigint as usd
        from bench_subscribers s
        join bench_full f using ({key})
        cross join lateral (
            select (array['USD', 'EUR', 'GBP', 'JPY', 'BRL'])[1 + s.country % 5] as currency,
                (array[1.0, 0.9, 0.8, 150, 5])[1 + s.country % 5] as rate
        ) as m
        cross join lateral (
            select {of[Kind.PAYMENT]} as kind, s.start + k * s.length as day, (k > 0)::int as n, 1 as quantity,
                s.price as money
            from generate_series(0, s.payments - 1) as k
            union all
            select {of[Kind.RENEWAL_DUE]}, s.start + k * s.length, least(k, 12), 1, 0
            from generate_series(1, s.payments) as k
            union all
            select {of[Kind.RENEWED]}, s.start + k * s.length, least(k, 12), 1, 0
            from generate_series(1, s.payments - 1) as k
            union all
            select {of[Kind.RETAINED]}, s.start, k, 1, 0 from generate_series(0, s.payments - 1) as k
            union all
            select v.kind, v.day, 0, v.quantity, v.money
            from (values
                ({of[Kind.ACTIVE]}, s.start, 1, s.price * 30 / s.length),
                ({of[Kind.ACTIVE]}, s.start + s.payments * s.length, -1, s.price * 30 / s.length),
                ({of[Kind.NEW]}, s.start, 1, s.price * 30 / s.length),
                ({of[Kind.CHURN]}, s.start + s.payments * s.length, 1, s.price * 30 / s.length),
                ({of[Kind.CUSTOMER]}, s.start, 1, 0),
                ({of[Kind.PAYING_CUSTOMER]}, s.start, 1, 0)
            ) as v (kind, day, quantity, money)
        ) as t
        where t.day <= {today}
        group by 1, 2, 3, 4, 5
    """)


async def _cells(connection: Connection, project_id: str) -> None:
    """The combinations of all cuboids, and which of them each combination with all dimensions belongs to."""
    say("cells")
    await connection.execute("""
        create unlogged table bench_dimensions as
        select id::int, 'product_' || product as product,
            (array['P1M', 'P1M', 'P1Y', 'P1M', 'P1W', 'P6M', 'P1M', 'P1Y'])[product + 1] as duration,
            (array['app_store', 'play_store', 'stripe', 'amazon'])[store + 1] as store,
            'C' || country as country, (array['ios', 'android', 'web', 'android'])[store + 1] as platform,
            version / 10 || '.' || version % 10 as app_version, 'offering_' || offering as offering,
            (case when a > 0 then array['paywall:' || a] else array[]::text[] end)
                || (case when b > 0 then array['price:' || b] else array[]::text[] end) as variants
        from bench_full
    """)
    await connection.execute("create unlogged table bench_cells (dimension int, cuboid smallint, cell int)")
    offset: int = await connection.fetchval("select max(id) from bench_dimensions")
    await connection.execute(f"""
        insert into chart_dimensions
        select '{project_id}', id, gen_random_uuid(), 'PRODUCTION', 0, {", ".join(COLUMNS)}, variants,
            '{{}}', '{{}}', '{{}}'
        from bench_dimensions
    """)
    for cuboid in CUBOIDS:
        if cuboid.tag == "attributes":
            continue
        shown = ", ".join(name if name in cuboid.dimensions else f"'' as {name}" for name in COLUMNS)
        tag, of = ("array[v]", "cross join lateral unnest(variants) as v") if cuboid.tag else ("'{}'::text[]", "")
        await connection.execute(f"""
            create temp table bench_made as
            select id, {shown}, {tag} as variants from bench_dimensions {of};
            alter table bench_made add column cell int;
            create temp table bench_ids as
            select {offset} + row_number() over () as cell, d.* from (
                select distinct {", ".join(COLUMNS)}, variants from bench_made
            ) as d;
            insert into chart_dimensions
            select '{project_id}', cell, gen_random_uuid(), 'PRODUCTION', {cuboid.number}, {", ".join(COLUMNS)},
                variants, '{{}}', '{{}}', '{{}}'
            from bench_ids;
            insert into bench_cells
            select m.id, {cuboid.number}, i.cell
            from bench_made m join bench_ids i using ({", ".join(COLUMNS)}, variants);
        """)
        offset += await connection.fetchval("select count(*) from bench_ids")
        await connection.execute("drop table bench_made, bench_ids")


async def _sum(connection: Connection, project_id: str, cuboid: Cuboid | None) -> None:
    """The sums of a cuboid; without one, those with all dimensions."""
    if cuboid is None:
        say("sums with all dimensions")
        await connection.execute(f"""
            insert into chart_days ({INTO})
            select '{project_id}', dimension, kind, day, n, currency, quantity, nullif(micros, 0), nullif(usd, 0)
            from bench_facts order by 2, 3, 4
        """)
        return
    if cuboid.tag == "attributes":
        return
    say(f"sums by {', '.join(sorted(cuboid.dimensions)) or 'nothing'}")
    await connection.execute(f"""
        insert into chart_days ({INTO})
        select '{project_id}', c.cell, f.kind, f.day, f.n, f.currency, {SUMS}
        from bench_facts f join bench_cells c on c.dimension = f.dimension and c.cuboid = {cuboid.number}
        group by 2, 3, 4, 5, 6 order by 2, 3, 4, 5, 6
    """)
    if cuboid.by_month:
        await connection.execute(f"""
            insert into chart_months ({INTO})
            select '{project_id}', c.cell, f.kind,
                date_trunc('month', date '1970-01-01' + f.day)::date - date '1970-01-01', f.n, f.currency, {SUMS}
            from bench_facts f join bench_cells c on c.dimension = f.dimension and c.cuboid = {cuboid.number}
            group by 2, 3, 4, 5, 6 order by 2, 3, 4, 5, 6
        """)
