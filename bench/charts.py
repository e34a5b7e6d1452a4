"""Charts over many payments: how long answers take from the stored sums, and from Parquet files read by DuckDB.

`MILLIONS=10 python -m bench charts` (about 2.5 GB of tables for each million while it runs, deleted at the end).
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from statistics import median

import duckdb
import psutil  # type: ignore[import-untyped]  # its stubs are a separate package

from bench.chart_facts import COLUMNS, DAYS, fill
from bench.ground import Ground
from bench.table import Row, say
from latchkey.domain.charts.fact import LEVELS, Kind
from latchkey.domain.charts.sums import Day, Filter, Question, Resolution
from latchkey.domain.instants import DAY
from latchkey.now import real_now
from latchkey.storage.charts.kinds import CODES
from latchkey.usecases.charts.reading import read_sums

BAR_MS = 300
TIMES = 7
MOVES = (Kind.NEW, Kind.RETURN, Kind.EXPANSION, Kind.CONTRACTION, Kind.CHURN)


def questions(today: Day) -> dict[str, Question]:
    two, three, quarter = today - 730, today - DAYS, today - 90

    def ask(
        kinds: tuple[Kind, ...], first: Day, resolution: Resolution, segment: str | None = None, **only: str
    ) -> Question:
        filters = tuple(
            Filter(name.replace("experiment_", "experiment:"), tuple(values.split("|")))
            for name, values in only.items()
        )
        return Question("PRODUCTION", kinds, first, today, resolution, filters, segment)

    day, month, week = Resolution.DAY, Resolution.MONTH, Resolution.WEEK
    paid, active, retained = (Kind.PAYMENT, Kind.REFUND), (Kind.ACTIVE,), (Kind.RETAINED,)
    return {
        "revenue by day, 2 years": ask(paid, two, day),
        "active by day, 2 years": ask(active, two, day),
        "movement by month, 3 years": ask(MOVES, three, month),
        "retention by month, 3 years": ask(retained, three, month),
        "revenue by day and product, 2 years": ask(paid, two, day, "product"),
        "active by day and country, 90 days": ask(active, quarter, day, "country"),
        "active by day and country, 2 years": ask(active, two, day, "country"),
        "revenue by month and app version, 3 years": ask(paid, three, month, "app_version"),
        "revenue by week and variant, 2 years": ask(paid, two, week, "experiment:paywall"),
        "revenue of iOS by day and product, 2 years": ask(paid, two, day, "product", platform="ios"),
        "revenue of a country by day and product, 2 years": ask(paid, two, day, "product", country="C0"),
        "active of iOS by month and country, 3 years": ask(active, three, month, "country", platform="ios"),
        "revenue of iOS by month and country, 3 years": ask(paid, three, month, "country", platform="ios"),
        "revenue of iOS by day and country, 2 years": ask(paid, two, day, "country", platform="ios"),
        "revenue of a version by day and product, 2 years": ask(paid, two, day, "product", app_version="2.0"),
        "retention of a product by month and country, 3 years": ask(
            retained, three, month, "country", product="product_0"
        ),
        "revenue of a variant by day and country, 2 years": ask(paid, two, day, "country", experiment_paywall="1"),
        "revenue by day, three filters, 2 years": ask(
            paid, two, day, product="product_0|product_1", country="C0|C1|C2", platform="ios"
        ),
        "movement by month, three filters, 3 years": ask(
            MOVES, three, month, store="app_store", country="C1", offering="offering_0"
        ),
        "revenue by month, version, country, product, 3 years": ask(
            paid, three, month, app_version="2.0|2.1", country="C0", product="product_0"
        ),
        "revenue of a version by day and country, 2 years": ask(paid, two, day, "country", app_version="2.0"),
        "active of all versions but one by month and country": ask(
            active, three, month, "country", app_version="|".join(f"{v // 10}.{v % 10}" for v in range(39))
        ),
    }


async def run(ground: Ground) -> list[Row]:
    count = int(float(os.environ.get("MILLIONS", "1")) * 1_000_000)
    now = real_now()
    today = now // DAY
    async with ground.database.acquire() as connection:
        payments = await fill(connection, ground.project_id, count, today)
        sizes = await connection.fetch(
            "select relname as name, pg_total_relation_size(oid) as bytes, reltuples::bigint as rows from pg_class "
            "where relname in ('chart_days', 'chart_months', 'chart_dimensions')"
        )
        by_cuboid = await connection.fetch(
            "select d.cuboid, count(distinct d.id) as cells, count(*) as rows from chart_dimensions d "
            "join chart_days s on s.project_id = d.project_id and s.cell = d.id group by 1 order by 1"
        )
        await connection.execute("vacuum chart_days")
        await connection.execute("vacuum chart_months")
    say(f"{payments:,} payments")
    for row in sizes:
        say(f"{row['name']}: {row['rows']:,} rows, {row['bytes'] / 1e6:,.0f} MB")
    for row in by_cuboid:
        say(f"cuboid {row['cuboid']}: {row['cells']:,} cells, {row['rows']:,} rows by day")
    rows: list[Row] = []
    duck = await _exported(ground, ground.folder / "facts.parquet")
    for name, question in questions(today).items():
        taken = [await _timed(ground, question, now) for _ in range(TIMES)]
        answer = (await read_sums(ground.database, ground.project_id, question, now)).sums
        sql = _duck_sql(question, today)
        in_duck = [_measured(duck, sql) for _ in range(TIMES)]
        found = duck.execute(f"select coalesce(sum(quantity), 0) from ({sql})").fetchone()
        assert found is not None
        assert found[0] == sum(one.quantity for one in answer), (name, found, len(answer))
        walls, own, theirs = zip(*taken, strict=True)
        cpu = f"CPU {median(own):.0f} + {median(theirs):.0f}, {len(answer):,} sums"
        rows.append(
            Row(
                name, median(walls), "ms", bar=f"≤ {BAR_MS} ms, max {max(walls):.0f}; {cpu}", holds=max(walls) <= BAR_MS
            )
        )
        rows.append(Row("  … DuckDB", median(in_duck), "ms", bar=f"max {max(in_duck):.0f}"))
        say(f"{name}: {median(walls):.0f} ms, max {max(walls):.0f}; {cpu}; DuckDB {median(in_duck):.0f} ms")
    return rows


async def _timed(ground: Ground, question: Question, now: int) -> tuple[float, float, float]:
    """Milliseconds: the whole, and the processor time of this process and of the database's."""
    start, own, theirs = time.perf_counter(), time.process_time(), _spent(ground)
    await read_sums(ground.database, ground.project_id, question, now)
    whole = time.perf_counter() - start
    return whole * 1000, (time.process_time() - own) * 1000, _spent(ground) - theirs


def _spent(ground: Ground) -> float:
    """The processor time of the database's processes that serve this one, in milliseconds."""
    pids = [one for one in psutil.Process(ground.server.pid).children() if "latchkey" in " ".join(one.cmdline())]
    return sum(int(Path(f"/proc/{one.pid}/schedstat").read_text().split()[0]) for one in pids) / 1e6


def _measured(duck: duckdb.DuckDBPyConnection, sql: str) -> float:
    start = time.perf_counter()
    duck.execute(sql).fetchall()
    return (time.perf_counter() - start) * 1000


async def _exported(ground: Ground, path: Path) -> duckdb.DuckDBPyConnection:
    """The same facts as one Parquet file, sorted by kind and day."""
    say("Parquet")
    shown = ", ".join(f"d.{name}" for name in COLUMNS)
    table = path.with_suffix(".csv")
    async with ground.database.acquire() as connection:
        await connection.execute("set enable_hashjoin = on; set statement_timeout = 0")
        await connection.copy_from_query(
            f"select f.kind, f.day, f.n, f.currency, f.quantity, f.micros, f.usd, {shown}, "
            "coalesce((select substr(v, 9) from unnest(d.variants) v where v like 'paywall:%' limit 1), '') as paywall "
            "from bench_facts f join bench_dimensions d on d.id = f.dimension",
            output=table,
            format="csv",
            header=True,
        )
    duck = duckdb.connect(config={"threads": os.cpu_count() or 1})
    duck.execute(
        f"copy (select * from read_csv('{table}', all_varchar = false) order by kind, day) to '{path}' (format parquet)"
    )
    os.unlink(table)
    say(f"{path.name}: {os.path.getsize(path) / 1e6:,.0f} MB")  # noqa: ASYNC240 - a benchmark
    duck.execute(f"create view facts as select * from '{path}'")
    return duck


def _duck_sql(question: Question, today: Day) -> str:
    kinds = ", ".join(str(CODES[kind]) for kind in question.kinds)
    levels = ", ".join(str(CODES[kind]) for kind in question.kinds if kind in LEVELS) or "-1"
    where = [
        f"kind in ({kinds})",
        f"day <= {min(today, question.last)}",
        f"(day >= {question.first} or kind in ({levels}))",
    ]
    for one in question.filters:
        values = ", ".join(f"'{value}'" for value in one.values)
        where.append(f"{_column(one.dimension)} in ({values})")
    period = {
        Resolution.DAY: "day",
        Resolution.WEEK: "day - (day + 4) % 7",
        Resolution.MONTH: "datediff('day', date '1970-01-01', date_trunc('month', date '1970-01-01' + day::integer))",
    }[question.resolution]
    segment = "''" if question.segment is None else _column(question.segment)
    return (
        f"select kind, n, case when day < {question.first} then null else {period} end as period, "
        f"{segment} as segment, currency, sum(quantity) as quantity, sum(micros) as micros, sum(usd) as usd "
        f"from facts where {' and '.join(where)} group by all"
    )


def _column(dimension: str) -> str:
    return dimension.removeprefix("experiment:")
