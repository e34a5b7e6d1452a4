"""One and two processes of the API: requests a second, and the CPU of a request.

The load generator is pinned to the last core; PostgreSQL and the service run where they like. On two cores a second
process can only use what the load leaves. So the CPU of a request is the figure to look at there: from it follows what
more cores would give.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from statistics import median

from bench.buying import API, System, apart
from bench.ground import Ground
from bench.load import measure
from bench.population import settle, subscriber
from bench.table import Row, say
from latchkey.domain.instants import DAY
from latchkey.now import real_now

COUNTS = (1, 2)
CONNECTIONS = 64
CUSTOMERS = 10_000
READS, PURCHASES = 8_000, 2_000
ROUNDS = 3


async def run(ground: Ground) -> list[Row]:
    await settle(ground.database, "reader", subscriber(real_now() - 5 * DAY), CUSTOMERS)
    found: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for number in range(1, ROUNDS + 1):
        # Alternating: a shared machine sometimes runs half as fast again for a second.
        for workers in COUNTS:
            say(f"workers: {workers} of the API, round {number} of {ROUNDS}")
            async with apart(ground, workers=workers) as system:
                for what, measured in (await _measure(system, f"{number}-{workers}")).items():
                    found.setdefault((what, workers), []).append(measured)
    return [row for what in ("reads", "purchases") for row in _rows(what, found)]


def _rows(what: str, found: dict[tuple[str, int], list[tuple[float, float]]]) -> list[Row]:
    rate = {workers: median(one for one, _ in found[what, workers]) for workers in COUNTS}
    cpu = {workers: median(one for _, one in found[what, workers]) for workers in COUNTS}
    first, last = COUNTS
    return [
        Row(f"workers: {what}, {last} processes for {first}", rate[last], "/s", rate[first], rate[last] / rate[first]),
        Row(f"workers: CPU of one of the {what}, API", cpu[last], "ms", cpu[first], cpu[last] / cpu[first]),
    ]


async def _measure(system: System, prefix: str) -> dict[str, tuple[float, float]]:
    """By what was asked: how many a second, and the CPU milliseconds of one in the API's processes."""

    async def read(number: int) -> None:
        response = await system.http.get(f"{system.url}/v1/subscribers/reader{number % CUSTOMERS}").build().send()
        assert response.status == 200, response.status
        await response.bytes()

    buy = await system.buyer(f"workers{prefix}", PURCHASES)
    # Opens the connections, which all that follows uses.
    await measure(read, CONNECTIONS, CONNECTIONS * 2)
    found = {}
    for what, ask, count in (("reads", read, READS), ("purchases", buy, PURCHASES)):
        before = system.spent()[API]
        with _pinned():
            measured = await measure(ask, CONNECTIONS, count)
        found[what] = (measured.per_second, (system.spent()[API] - before) / count)
    return found


@contextmanager
def _pinned() -> Iterator[None]:
    """All threads of this process, which sends the load, on the last core until the end of the block. Processes that
    are started meanwhile would be pinned too."""
    before = os.sched_getaffinity(0)
    _pin({max(before)})
    try:
        yield
    finally:
        _pin(before)


def _pin(cores: set[int]) -> None:
    for thread in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread), cores)
