"""Charts over many payments: every chart with several options, and how long the widest questions take from the stored
sums and from a Parquet file read by DuckDB. No chart asks these questions: they are for every value and every currency.

`MILLIONS=10 python -m bench charts` (about 10 GB while it runs, deleted at the end). With `KEPT=folder` the database
stays there, and the next time it is not filled again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import psutil  # type: ignore[import-untyped]  # its stubs are a separate package

from bench.chart_facts import DAYS, FACTS, facts_sql, fill, fill_rates, fill_tail, filled, subscribers
from bench.ground import Ground
from bench.table import Row, say
from latchkey.domain.charts.chart import ChartRequest
from latchkey.domain.charts.definitions.listing import CHARTS
from latchkey.domain.charts.fact import LEVELS, Day, Filter, Kind, Question, Resolution, date_of
from latchkey.domain.instants import DAY
from latchkey.garbage import collect_seldom
from latchkey.now import real_now
from latchkey.storage.charts.kinds import CODES
from latchkey.usecases.charts.charts import read_chart
from latchkey.usecases.charts.reading import read_sums

if TYPE_CHECKING:
    import duckdb

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
    known = await filled(ground.database, ground.project_id)
    today = now // DAY if known is None else known
    duck = subscribers(count, today)
    if known is None:
        await fill(ground.database, ground.project_id, duck, today)
    # DuckDB does not have what is in it.
    await ground.database.pool.execute("delete from chart_tail where project_id = $1", ground.project_id)
    size = await ground.database.pool.fetchrow(
        "select pg_total_relation_size('chart_blocks') as bytes, count(*) as blocks, sum(rows) as rows"
        " from chart_blocks"
    )
    assert size is not None
    say(f"chart_blocks: {size['rows']:,} rows in {size['blocks']:,} blocks, {size['bytes'] / 1e6:,.0f} MB")
    _exported(duck, ground.folder / "facts.parquet", today)
    collect_seldom()
    rows: list[Row] = []
    for name, question in questions(today).items():
        taken = [await _timed(ground, partial(read_sums, question=question), now) for _ in range(TIMES)]
        answer = (await read_sums(ground.database, ground.project_id, question, now)).sums
        sql = _duck_sql(question, today)
        in_duck = [_measured(duck, sql) for _ in range(TIMES)]
        found = duck.execute(f"select coalesce(sum(quantity), 0) from ({sql})").fetchone()
        assert found is not None
        assert found[0] == sum(one.quantity for one in answer), (name, found, len(answer))
        rows.append(_row(name, taken, more=f", {len(answer):,} sums"))
        rows.append(Row("  … DuckDB", median(in_duck), "ms", bar=f"max {max(in_duck):.0f}"))
    await fill_tail(ground.database, ground.project_id, today)
    await fill_rates(ground.database, today)
    for name, request in requests(today).items():
        taken = [await _timed(ground, partial(read_chart, request=request), now) for _ in range(TIMES)]
        rows.append(_row(name, taken, most=BAR_MS))
    return rows


def requests(today: Day) -> dict[str, ChartRequest]:
    """Every chart with options that are usual, and with some that few people choose."""
    options = {
        "by day, 1 year": ("day", 365, None, ()),
        "by month and country, 3 years": ("month", DAYS, "country", ()),
        "by day and country, 1 year": ("day", 365, "country", ()),
        "by day and country in EUR, 1 year": ("day", 365, "country", ()),
        "by week and product, iOS, 2 years": ("week", 730, "product", (Filter("platform", ("ios",)),)),
        "by day and app version, 2 filters, 1 year": (
            "day", 365, "app_version", (Filter("store", ("app_store",)), Filter("country", ("C0", "C1")))
        ),
        "by day and country, iOS, 2 years": ("day", 730, "country", (Filter("platform", ("ios",)),)),
        "by day and country, a variant, 2 years": ("day", 730, "country", (Filter("experiment:paywall", ("1",)),)),
        "by day and variant, 2 years": ("day", 730, "experiment:paywall", ()),
        # No cuboid has these, so all dimensions are read.
        "by day and country, 3 filters, 2 years": (
            "day", 730, "country",
            (Filter("store", ("app_store",)), Filter("app_version", ("2.0", "2.1")), Filter("product", ("product_0",))),
        ),
    }  # fmt: skip
    found: dict[str, ChartRequest] = {}
    for definition in CHARTS:
        selectors = {"experiment": "paywall"} if definition.selector("experiment") else {}
        if selectors:
            continue
        for name, (resolution, days, segment, filters) in options.items():
            if segment is not None and not definition.allows_segment(segment):
                continue
            if (in_euros := "in EUR" in name) and not definition.has_money:
                continue
            if not all(definition.allows_filter(one.dimension) for one in filters):
                continue
            found[f"{definition.name} {name}"] = ChartRequest(
                name=definition.name,
                environment="PRODUCTION",
                first=date_of(today - days),
                last=date_of(today),
                resolution=Resolution(resolution),
                filters=filters,
                segment=segment,
                compare=definition.has_comparison,
                currency="EUR" if in_euros else "USD",
            )
    return found


def _row(name: str, taken: list[tuple[float, float, float]], *, most: float | None = None, more: str = "") -> Row:
    """Median of all but the first answer, which stands beside it."""
    first = taken[0][0]
    walls, own, theirs = zip(*taken[1:], strict=True)
    words = f"first {first:.0f}, max {max(walls):.0f}; CPU {median(own):.0f} + {median(theirs):.0f}{more}"
    say(f"{name}: {median(walls):.0f} ms, {words}")
    if most is None:
        return Row(name, median(walls), "ms", bar=words)
    return Row(name, median(walls), "ms", bar=f"≤ {most} ms, {words}", holds=median(walls) <= most)


async def _timed(ground: Ground, ask: Callable[..., Awaitable[object]], now: int) -> tuple[float, float, float]:
    """Milliseconds: the whole, and the processor time of this process and of the database's."""
    theirs, own, start = spent(ground), time.process_time(), time.perf_counter()
    await ask(ground.database, ground.project_id, now=now)
    whole, own = time.perf_counter() - start, time.process_time() - own
    return whole * 1000, own * 1000, spent(ground) - theirs


def spent(ground: Ground) -> float:
    """The processor time of the database's processes that serve this one, in milliseconds."""
    spent = 0.0
    for process in psutil.Process(ground.server.pid).children():
        # Some of them end at any moment: a worker of autovacuum, for example.
        with suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
            if "latchkey" in " ".join(process.cmdline()):
                spent += int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0]) / 1e6
    return spent


def _measured(duck: duckdb.DuckDBPyConnection, sql: str) -> float:
    start = time.perf_counter()
    # As columns, as ours.
    duck.execute(sql).to_arrow_table()
    return (time.perf_counter() - start) * 1000


def _exported(duck: duckdb.DuckDBPyConnection, path: Path, today: Day) -> None:
    """The facts that the questions are about as one Parquet file, sorted by kind and day."""
    say("Parquet")
    asked = {kind for one in questions(today).values() for kind in one.kinds}
    amounts = ", ".join(f"sum({name})::bigint as {name}" for name in ("quantity", "micros", "usd"))
    keys = "product, duration, store, country, platform, app_version, offering, variants, day, n, currency"
    union = " union all ".join(
        f"select {CODES[one.kind]} as kind, * from ({facts_sql(one, today)})" for one in FACTS if one.kind in asked
    )
    duck.execute(
        f"copy (select kind, {keys}, {amounts}, coalesce(regexp_extract(variants, 'paywall:([0-9])', 1), '') as paywall"
        f" from ({union}) group by all order by kind, day) to '{path}' (format parquet)"
    )
    say(f"{path.name}: {path.stat().st_size / 1e6:,.0f} MB")
    duck.execute(f"create view facts as select * from '{path}'")


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
