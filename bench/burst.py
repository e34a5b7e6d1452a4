"""A burst: purchases as fast as 64 connections send them, until the last delivery is recorded.

Half of them are by new customers, half by known ones. The clock starts with the first request.
"""

import asyncio
import time
from collections.abc import Sequence
from statistics import median

from bench.buying import API, OTHERS, POSTGRESQL, System, ceiling, latchkey
from bench.ground import Ground
from bench.load import measure
from bench.table import Row, say

COUNT = 6_000
ROUNDS = 5
CONNECTIONS = 64
ANSWERED, RECORDED = 3_000, 2_000
# After the last delivery: what the background does late belongs to the purchases too.
AFTERWARDS = 3
COUNTED = (API, OTHERS, POSTGRESQL)


async def run(ground: Ground) -> list[Row]:
    async with ceiling(ground) as bare, latchkey(ground) as ours:
        bursts = {system.name: Bursts(system) for system in (bare, ours)}
        for one in bursts.values():
            say(f"{one.system.name}: warm-up")
            await one.again("warm")
            await one.system.check("warm")
            one.forget()
        # Alternating, and the median of each: a shared machine sometimes runs half as fast again for a second.
        for number in range(1, ROUNDS + 1):
            for one in bursts.values():
                say(f"{one.system.name}: {COUNT:,} purchases by {CONNECTIONS} connections, {number} of {ROUNDS}")
                await one.again(f"burst{number}")
    measured, highest = bursts[ours.name], bursts[bare.name]
    rows = [
        _rate("burst: purchases answered", measured.answered, highest.answered, ANSWERED),
        _rate("burst: purchase to recorded delivery", measured.rates, highest.rates, RECORDED),
    ]
    cpu, least = measured.cpu(), highest.cpu()
    rows.append(Row("burst: CPU of a purchase and its delivery", sum(cpu.values()), "ms", sum(least.values())))
    return rows + [Row(f"burst: of it {name}", cpu[name], "ms", least[name]) for name in COUNTED]


def _rate(name: str, ours: Sequence[float], bare: Sequence[float], bar: int) -> Row:
    rate, most = median(ours), median(bare)
    return Row(name, rate, "/s", most, rate / most, f"≥ {bar:,}/s", rate >= bar)


class Bursts:
    def __init__(self, system: System) -> None:
        self.system = system
        # Purchases a second: until all are answered, and until the last delivery is recorded.
        self.answered: list[float] = []
        self.rates: list[float] = []
        self._spent: list[dict[str, float]] = []
        self._sent = 0

    def forget(self) -> None:
        """What was measured so far was a warm-up."""
        self.answered.clear()
        self.rates.clear()
        self._spent.clear()

    async def again(self, prefix: str) -> None:
        system = self.system
        buyer = await system.buyer(prefix, COUNT)
        self._sent += COUNT
        began, before = time.perf_counter(), system.spent()
        answered = await measure(buyer, CONNECTIONS, COUNT)
        await system.until_recorded(self._sent)
        self.rates.append(COUNT / (time.perf_counter() - began))
        self.answered.append(answered.per_second)
        await asyncio.sleep(AFTERWARDS)
        after = system.spent()
        self._spent.append({name: (after[name] - before[name]) / COUNT for name in COUNTED})

    def cpu(self) -> dict[str, float]:
        """Milliseconds for each purchase, by process."""
        return {name: median(spent[name] for spent in self._spent) for name in COUNTED}
