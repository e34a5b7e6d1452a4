"""How far the charts are behind the commits, with purchases at a steady rate over HTTPS. The bar is one second.

A purchase is in the charts once the roller's transaction with its event is visible, so the position of the charts is
read every few milliseconds, and each event has waited from its `committed_at` (taken just before the commit) until the
position had reached it. For lone purchases a chart itself is asked until it has the payment.

Only when it is named: `python -m bench lag`.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import Awaitable, Sequence
from statistics import median, quantiles

from bench.buying import apart
from bench.ground import Ground
from bench.load import at_rate
from bench.table import Row, say
from latchkey.domain.charts.fact import Amounts, Kind, Question, Resolution
from latchkey.domain.instants import DAY
from latchkey.now import real_now
from latchkey.usecases.charts.reading import read_sums

RATES = (50, 200)
SECONDS = 20
WARM_UP = 500
LONE = 12
BAR_MS = 1_000
# Seconds between two looks at the position.
_LOOK = 0.005

POSITION = "select position from chart_rolls where project_id = $1"
UNCOUNTED = (
    "select exists (select from chart_marks where project_id = $1) or (select max(id) from customers where"
    " project_id = $1) > (select counted from chart_rolls where project_id = $1)"
)
EVENTS = "select position, committed_at from events where project_id = $1 and position > $2 order by position"


async def run(ground: Ground) -> list[Row]:
    rows: list[Row] = []
    async with apart(ground) as system:
        counts = {"warm": WARM_UP, "lone": LONE, **{f"at{rate}": rate * SECONDS for rate in RATES}}
        buyers = {prefix: await system.buyer(prefix, count) for prefix, count in counts.items()}
        # They came without events. Counting them takes some batches, which is not measured here.
        await _until_counted(ground)
        await at_rate(buyers["warm"], max(RATES), WARM_UP)
        await system.until_recorded(WARM_UP)
        await system.check("warm")
        await _until_there(ground, WARM_UP)
        lone = []
        for number in range(LONE):
            # At no particular distance from the roller's looks.
            await asyncio.sleep(1.5 + 0.1 * number)
            await buyers["lone"](number)
            began = time.perf_counter()
            await _until_there(ground, WARM_UP + number + 1)
            lone.append((time.perf_counter() - began) * 1000)
        rows += _rows("a lone purchase, by asking a chart", lone)
        done = WARM_UP + LONE
        for rate in RATES:
            count = rate * SECONDS
            await asyncio.sleep(2)
            say(f"{rate} purchases a second for {SECONDS} s")
            rows += _rows(f"{rate} purchases/s", await _lags(ground, at_rate(buyers[f"at{rate}"], rate, count)))
            done += count
            await _until_there(ground, done)
    return rows


async def _lags(ground: Ground, buying: Awaitable[object]) -> list[float]:
    """Milliseconds from the commit of each event until the charts had it."""
    first: int = await ground.database.pool.fetchval(POSITION, ground.project_id)
    seen: list[tuple[int, float]] = []
    last: int | None = None

    async def watch() -> None:
        while last is None or seen[-1][0] < last:
            position = await ground.database.pool.fetchval(POSITION, ground.project_id)
            if not seen or seen[-1][0] != position:
                seen.append((position, time.time() * 1000))
            await asyncio.sleep(_LOOK)

    watching = asyncio.create_task(watch())
    await buying
    events = await ground.database.pool.fetch(EVENTS, ground.project_id, first)
    last = events[-1]["position"]
    await watching
    positions = [position for position, _ in seen]
    return [seen[bisect_left(positions, event["position"])][1] - event["committed_at"] for event in events]


async def _until_there(ground: Ground, payments: int, patience: float = 60.0) -> None:
    """Until the charts have so many payments."""
    deadline = time.monotonic() + patience
    while (found := await _payments(ground)) < payments:
        assert time.monotonic() < deadline, f"the charts have {found} of {payments} payments"
        await asyncio.sleep(_LOOK)


async def _until_counted(ground: Ground, patience: float = 120.0) -> None:
    deadline = time.monotonic() + patience
    while await ground.database.pool.fetchval(UNCOUNTED, ground.project_id):
        assert time.monotonic() < deadline, "the customers were not counted"
        await asyncio.sleep(0.1)


async def _payments(ground: Ground) -> int:
    """Of today and yesterday, in both environments; those of known customers were made before."""
    today, total = real_now() // DAY, 0
    for environment in ("PRODUCTION", "SANDBOX"):
        asked = Question(environment, (Kind.PAYMENT,), today - 1, today, Resolution.DAY, amounts=Amounts.NONE)
        answer = await read_sums(ground.database, ground.project_id, asked, real_now())
        total += sum(one.quantity for one in answer.sums)
    return total


def _rows(name: str, waited: Sequence[float]) -> list[Row]:
    worst = max(waited)
    p99 = quantiles(waited, n=100)[98] if len(waited) >= 100 else worst
    say(f"{name}: p50 {median(waited):.0f} ms, p99 {p99:.0f}, max {worst:.0f} of {len(waited)}")
    return [
        Row(f"charts behind commits, {name}, p50", median(waited), "ms"),
        Row(f"charts behind commits, {name}, p99", p99, "ms"),
        Row(f"charts behind commits, {name}, max", worst, "ms", bar=f"≤ {BAR_MS} ms", holds=worst <= BAR_MS),
    ]
