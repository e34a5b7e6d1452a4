"""One and two processes of the API: requests a second, and the CPU of a request.

The load generator is pinned to the last core; PostgreSQL and the service run where they like. On two cores a second
process can only use what the load leaves. So the CPU of a request is the figure to look at there: from it follows what
more cores would give.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from statistics import median

from bench.buying import post, purchase
from bench.ground import Ground, Service
from bench.load import client, measure
from bench.population import settle, subscriber
from bench.processor import spent_ms
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
            async with ground.processes("api", workers=workers) as service:
                for what, measured in (await _measure(ground, service, f"{number}-{workers}")).items():
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


async def _measure(ground: Ground, service: Service, prefix: str) -> dict[str, tuple[float, float]]:
    """By what was asked: how many a second, and the CPU milliseconds of one in the API's processes."""
    action = f"{service.url}/v2/projects/{ground.project_id}/test_store/actions"
    async with client(ground.certificates.authority, ground.key) as http:

        async def read(number: int) -> None:
            response = await http.get(f"{service.url}/v1/subscribers/reader{number % CUSTOMERS}").build().send()
            assert response.status == 200, response.status
            await response.bytes()

        async def buy(number: int) -> None:
            await post(http, action, purchase(f"workers{prefix}", number))

        found = {}
        for what, ask, count in (("reads", read, READS), ("purchases", buy, PURCHASES)):
            if what == "reads":
                # Opens the connections, which all that follows uses.
                await measure(ask, CONNECTIONS, CONNECTIONS * 2)
            before = _spent(service)
            with _pinned():
                measured = await measure(ask, CONNECTIONS, count)
            found[what] = (measured.per_second, (_spent(service) - before) / count)
        return found


def _spent(service: Service) -> float:
    return sum(spent_ms(pid) for name, pid in service.pids.items() if name.startswith("api"))


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
