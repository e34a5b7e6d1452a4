"""A burst: purchases as fast as 64 connections send them, until the last delivery is recorded.

Half of them are by new customers, half by known ones. The clock starts with the first request.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractAsyncContextManager

from bench.buying import API, DELIVERY, LATCHKEY, POSTGRESQL, System, ceiling, check, know, latchkey
from bench.ground import Ground
from bench.load import measure
from bench.table import Row, say

COUNT = 12_000
WARM_UP = 1_500
CONNECTIONS = 64
BAR = 2_000
AFTERWARDS = 3


async def run(ground: Ground) -> list[Row]:
    bare_rate, bare_cpu = await _burst(ceiling(ground))
    rate, cpu = await _burst(latchkey(ground))
    rows = [
        Row(
            "burst: purchase to recorded delivery", rate, "/s", bare_rate, rate / bare_rate,
            f"≥ {BAR:,}/s", rate >= BAR,
        ),
        Row("burst: CPU of a purchase and its delivery", sum(cpu.values()), "ms", sum(bare_cpu.values())),
    ]  # fmt: skip
    return rows + [Row(f"burst: of it {name}", cpu[name], "ms", bare_cpu[name]) for name in cpu]


async def _burst(starting: AbstractAsyncContextManager[System]) -> tuple[float, dict[str, float]]:
    """Purchases a second, and the CPU milliseconds of each by process."""
    async with starting as system:
        if system.name == LATCHKEY:
            await know(system.ground, "warm", WARM_UP)
            await know(system.ground, "burst", COUNT)
        say(f"{system.name}: warm-up")
        await measure(system.buyer("warm"), CONNECTIONS, WARM_UP)
        await system.until_recorded(WARM_UP)
        await check(system, "warm")
        say(f"{system.name}: {COUNT:,} purchases by {CONNECTIONS} connections")
        began, before = time.perf_counter(), system.spent()
        await measure(system.buyer("burst"), CONNECTIONS, COUNT)
        await system.until_recorded(WARM_UP + COUNT)
        took = time.perf_counter() - began
        # What the background does late belongs to the purchases too.
        await asyncio.sleep(AFTERWARDS)
        after = system.spent()
    return COUNT / took, {name: (after[name] - before[name]) / COUNT for name in (API, DELIVERY, POSTGRESQL)}
