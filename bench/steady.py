"""A steady load: purchases at fixed instants over kept HTTPS connections, delivered to one webhook.

Half of the purchases are by new customers, half by known ones. What a purchase costs is the CPU time of all processes
of the service and of PostgreSQL, less what the same processes spend in the same time without any purchase.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from statistics import median, quantiles

from bench import trips
from bench.buying import API, GENERATOR, OTHERS, POSTGRESQL, SINK, System, ceiling, latchkey
from bench.ground import Ground
from bench.load import at_rate
from bench.table import Row, say
from latchkey.now import real_now

RATES = (50, 200)
SECONDS = 15
# After the last delivery: what the background does late belongs to the purchases too.
AFTERWARDS = 3
WARM_UP = 1_000

P50_MS, P99_MS, CPU_MS = 2.5, 10.0, 2.5
BARRED_RATE = 200


@dataclass(frozen=True, slots=True)
class Load:
    """What one rate gave: milliseconds of each request, of each delivery, and of CPU by process for each purchase."""

    requests: Sequence[float]
    waits: Sequence[float]
    cpu: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Measured:
    # Milliseconds of CPU a second, by process.
    idle: Mapping[str, float]
    loads: Mapping[int, Load]


async def run(ground: Ground) -> list[Row]:
    bare = await measure(ceiling(ground))
    ours = await measure(latchkey(ground))
    rows = [row for rate in RATES for row in _rows(rate, ours.loads[rate], bare.loads[rate])]
    for name in (API, OTHERS, POSTGRESQL):
        rows += [Row(f"idle: CPU of {name} in a second", ours.idle[name], "ms", bare.idle[name])]
    return rows + await trips.count(ground)


async def measure(starting: AbstractAsyncContextManager[System]) -> Measured:
    loads: dict[int, tuple[list[float], dict[str, float], int, int]] = {}
    prefixes = {"warm": WARM_UP, **{f"at{rate}": rate * SECONDS for rate in RATES}}
    async with starting as system:
        buyers = {prefix: await system.buyer(prefix, count) for prefix, count in prefixes.items()}
        say(f"{system.name}: warm-up")
        await at_rate(buyers["warm"], max(RATES), WARM_UP)
        await system.until_recorded(WARM_UP)
        await system.check("warm")
        await asyncio.sleep(AFTERWARDS)
        say(f"{system.name}: idle for {SECONDS} s")
        began, before = time.perf_counter(), system.spent()
        await asyncio.sleep(SECONDS)
        idle = _differences(before, system.spent(), time.perf_counter() - began)
        done = WARM_UP
        for rate in RATES:
            count = rate * SECONDS
            done += count
            say(f"{system.name}: {rate} purchases a second for {SECONDS} s")
            first_ms, began, before = real_now(), time.perf_counter(), system.spent()
            requests = await at_rate(buyers[f"at{rate}"], rate, count)
            await system.until_recorded(done)
            last_ms = real_now()
            await asyncio.sleep(AFTERWARDS)
            whole = time.perf_counter() - began
            cpu = {
                name: spent - idle[name] * whole / count
                for name, spent in _differences(before, system.spent(), count).items()
            }
            loads[rate] = requests, cpu, first_ms, last_ms
        waits = await system.waits()
    found = {}
    for rate, (requests, cpu, first_ms, last_ms) in loads.items():
        waited = [wait for at, wait in waits if first_ms <= at <= last_ms]
        assert len(waited) == len(requests), f"{len(waited)} of {len(requests)} arrived"
        found[rate] = Load(requests, waited, cpu)
    return Measured(idle, found)


def _rows(rate: int, ours: Load, bare: Load) -> list[Row]:
    barred = rate == BARRED_RATE
    both, mixed = f"{rate}/s: request", sorted(ours.requests)
    rows = [
        _row(f"{both}, p50", median(mixed), median(bare.requests), P50_MS if barred else None),
        _row(f"{both}, p99", _p99(mixed), _p99(bare.requests), P99_MS if barred else None),
    ]
    for who, some in (("new", ours.requests[::2]), ("known", ours.requests[1::2])):
        rows.append(_row(f"{both} of a {who} customer, p50", median(some)))
        rows.append(_row(f"{both} of a {who} customer, p99", _p99(some)))
    rows.append(_row(f"{rate}/s: commit to receiver, p50", median(ours.waits), median(bare.waits)))
    rows.append(_row(f"{rate}/s: commit to receiver, p99", _p99(ours.waits), _p99(bare.waits)))
    names = (API, OTHERS, POSTGRESQL)
    whole, ceiling = (sum(load.cpu[name] for name in names) for load in (ours, bare))
    rows.append(_row(f"{rate}/s: CPU of a purchase and its delivery", whole, ceiling, CPU_MS if barred else None))
    rows += [_row(f"{rate}/s: of it {name}", ours.cpu[name], bare.cpu[name]) for name in names]
    rows += [_row(f"{rate}/s: not in it, {name}", ours.cpu[name], bare.cpu[name]) for name in (SINK, GENERATOR)]
    return rows


def _row(name: str, value: float, ceiling: float | None = None, at_most: float | None = None) -> Row:
    ratio = ceiling / value if ceiling is not None and value > 0 else None
    if at_most is None:
        return Row(name, value, "ms", ceiling, ratio)
    return Row(name, value, "ms", ceiling, ratio, f"≤ {at_most:g} ms", value <= at_most)


def _differences(before: Mapping[str, float], after: Mapping[str, float], shares: float) -> dict[str, float]:
    return {name: (after[name] - before[name]) / shares for name in before}


def _p99(values: Sequence[float]) -> float:
    return quantiles(values, n=100)[98]
