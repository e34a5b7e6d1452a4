"""Charts over many payments: every chart with several options, while customers change.

`MILLIONS=10 python -m bench charts` (about 15 GB while it runs, deleted at the end).
"""

import os
import time
from contextlib import suppress
from pathlib import Path
from statistics import quantiles

import psutil  # type: ignore[import-untyped]  # its stubs are a separate package

from bench.chart_rows import DAYS, buy, fill, fill_rates
from bench.ground import Ground
from bench.table import Row, say
from latchkey.domain.instants import DAY
from latchkey.garbage import collect_seldom
from latchkey.now import real_now
from latchkey.subjects.charts.rules.chart import ChartRequest
from latchkey.subjects.charts.rules.definition import CHARTS
from latchkey.subjects.charts.rules.facts import Day, Filter, Resolution, date_of
from latchkey.subjects.charts.storage.fact_cache import FactCache
from latchkey.subjects.charts.usecases import read_chart

BAR_MS, BUILD_SECONDS = 300, 180
TIMES = 5
# Customers who have changed since the file was built, and before each round of charts.
CHANGED, CHANGING = 10_000, 20


async def run(ground: Ground) -> list[Row]:
    count = int(float(os.environ.get("MILLIONS", "1")) * 1_000_000)
    now = real_now()
    today = now // DAY
    await fill(ground.database, ground.project_id, count, today, ground.folder)
    await fill_rates(ground.database, today)
    books = FactCache(ground.database, ground.folder / "charts")
    began, own = time.perf_counter(), time.process_time()
    await books.build(ground.project_id, now)
    built, own = time.perf_counter() - began, time.process_time() - own
    [file] = (ground.folder / "charts").glob("*.duckdb")
    words = f"≤ {BUILD_SECONDS} s; CPU {own:.0f} s; {file.stat().st_size / 1e6:,.0f} MB"
    rows = [Row("the file is built", built, "s", bar=words, holds=built <= BUILD_SECONDS)]
    say(f"{built:.0f} s, {words}")
    await buy(ground.database, ground.project_id, CHANGED)
    await books.facts(ground.project_id, now)
    collect_seldom()
    taken: list[float] = []
    for name, request in requests(today).items():
        await buy(ground.database, ground.project_id, CHANGING)
        walls = [await _timed(books, ground.project_id, request, now) for _ in range(TIMES)]
        taken += walls[1:]
        say(f"{name}: {min(walls):.0f} to {max(walls):.0f} ms, {walls[0]:.0f} after a change")
        worst = max(walls[1:])
        rows.append(Row(name, min(walls), "ms", bar=f"max {worst:.0f}, after a change {walls[0]:.0f}"))
    p95 = quantiles(taken, n=20)[-1]
    rows.append(Row("all charts, p95", p95, "ms", bar=f"≤ {BAR_MS} ms", holds=p95 <= BAR_MS))
    return rows


async def _timed(books: FactCache, project_id: str, request: ChartRequest, now: int) -> float:
    start = time.perf_counter()
    await read_chart(books, project_id, request, now)
    return (time.perf_counter() - start) * 1000


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
        "by day and country, 3 filters, 2 years": (
            "day", 730, "country",
            (Filter("store", ("app_store",)), Filter("app_version", ("2.0", "2.1")), Filter("product", ("product_0",))),
        ),
    }  # fmt: skip
    found: dict[str, ChartRequest] = {}
    for definition in CHARTS:
        if any(selector.name == "experiment" for selector in definition.selectors):
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


def spent(ground: Ground) -> float:
    """The processor time of the database's processes that serve this one, in milliseconds."""
    spent = 0.0
    for process in psutil.Process(ground.server.pid).children():
        # Some of them end at any moment: a worker of autovacuum, for example.
        with suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
            if "latchkey" in " ".join(process.cmdline()):
                spent += int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0]) / 1e6
    return spent
