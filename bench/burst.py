"""A burst: purchases as fast as 64 connections send them, until the last delivery is recorded.

Half of them are by new customers, half by known ones. The clock starts with the first request.
"""

from __future__ import annotations

import asyncio
import time
from statistics import median

from bench.buying import API, DELIVERY, LATCHKEY, POSTGRESQL, System, ceiling, check, know, latchkey
from bench.ground import Ground
from bench.load import measure
from bench.table import Row, say

COUNT = 6_000
ROUNDS = 5
CONNECTIONS = 64
BAR = 2_000
# After the last delivery: what the background does late belongs to the purchases too.
AFTERWARDS = 3
COUNTED = (API, DELIVERY, POSTGRESQL)


async def run(ground: Ground) -> list[Row]:
    async with ceiling(ground) as bare, latchkey(ground) as ours:
        bursts = {system.name: Bursts(system) for system in (bare, ours)}
        for one in bursts.values():
            say(f"{one.system.name}: warm-up")
            await one.again("warm")
            await check(one.system, "warm")
            one.forget()
        # Alternating, and the median of each: a shared machine sometimes runs half as fast again for a second.
        for number in range(1, ROUNDS + 1):
            for one in bursts.values():
                say(f"{one.system.name}: {COUNT:,} purchases by {CONNECTIONS} connections, {number} of {ROUNDS}")
                await one.again(f"burst{number}")
    measured, highest = bursts[ours.name], bursts[bare.name]
    rate, most = median(measured.rates), median(highest.rates)
    name = "burst: purchase to recorded delivery"
    rows = [Row(name, rate, "/s", most, rate / most, f"≥ {BAR:,}/s", rate >= BAR)]
    cpu, least = measured.cpu(), highest.cpu()
    rows.append(Row("burst: CPU of a purchase and its delivery", sum(cpu.values()), "ms", sum(least.values())))
    return rows + [Row(f"burst: of it {name}", cpu[name], "ms", least[name]) for name in COUNTED]


class Bursts:
    def __init__(self, system: System) -> None:
        self.system = system
        self.rates: list[float] = []
        self._spent: list[dict[str, float]] = []
        self._sent = 0

    def forget(self) -> None:
        """What was measured so far was a warm-up."""
        self.rates.clear()
        self._spent.clear()

    async def again(self, prefix: str) -> None:
        system = self.system
        if system.name == LATCHKEY:
            await know(system.ground, prefix, COUNT)
        self._sent += COUNT
        began, before = time.perf_counter(), system.spent()
        await measure(system.buyer(prefix), CONNECTIONS, COUNT)
        await system.until_recorded(self._sent)
        self.rates.append(COUNT / (time.perf_counter() - began))
        await asyncio.sleep(AFTERWARDS)
        after = system.spent()
        self._spent.append({name: (after[name] - before[name]) / COUNT for name in COUNTED})

    def cpu(self) -> dict[str, float]:
        """Milliseconds for each purchase, by process."""
        return {name: median(spent[name] for spent in self._spent) for name in COUNTED}
