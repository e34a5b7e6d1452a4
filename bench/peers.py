"""Latchkey beside Svix: the same load and the same receiver, in alternating rounds of one run.

Svix accepts a message, stores it and delivers it. Latchkey decides a purchase, writes its event and delivers that. The
messages of Svix have an event of Latchkey as their payload.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from statistics import median, quantiles
from typing import Any, TypeVar

from msgspec import Raw, json

from bench.buying import GENERATOR, LATCHKEY, SINK, Ask, System, ceiling, latchkey, rows_alone
from bench.ground import Ground
from bench.load import at_rate, measure
from bench.phones import TEST_STORE, app_user_id
from bench.svix import Installed, svix
from bench.table import Row, say

RATE, SECONDS = 200, 15
BURST, CONNECTIONS = 8_000, 64
ROUNDS = 3
# After the last delivery: what the background does late belongs to the messages too.
AFTERWARDS = 3
RECEIVED_MS, CPU_MS, RECORDED, BURST_CPU_MS = 2.0, 4.2, 1_600, 1.0

BUYERS = (
    "select e.id, c.app_user_id from events e join customers c on c.project_id = e.project_id and c.id = e.customer_id"
)
T = TypeVar("T")


class Peer:
    """One of the two, and what was measured of it."""

    def __init__(self, system: System, payload: bytes = b"") -> None:
        self.system = system
        # Of each round: p50 and p99 of the requests, p50 from reply to receiver, CPU; all in milliseconds.
        self.steady: list[tuple[float, ...]] = []
        # Of each round: recorded deliveries a second, and CPU in milliseconds.
        self.bursts: list[tuple[float, ...]] = []
        # Of a message of Svix.
        self._payload = payload
        self._sent = 0
        # CPU milliseconds a second, without any load.
        self._idle = 0.0
        # When the client had the reply, in microseconds: by customer, or by the id of the message.
        self._replied: dict[str, int] = {}

    async def warm_up(self) -> None:
        say(f"{self.system.name}: warm-up")
        await self._loaded("warm", BURST, lambda send: measure(send, CONNECTIONS, BURST))
        await self.system.check("warm")
        say(f"{self.system.name}: idle for {SECONDS} s")
        began, before = time.perf_counter(), self._spent()
        await asyncio.sleep(SECONDS)
        self._idle = (self._spent() - before) / (time.perf_counter() - began)

    async def steadily(self, number: int) -> None:
        say(f"{self.system.name}: {RATE} a second for {SECONDS} s, {number} of {ROUNDS}")
        count = RATE * SECONDS
        requests, _, cpu = await self._loaded(f"steady{number}", count, lambda send: at_rate(send, RATE, count))
        arrived = await self._arrived()
        waits = [max(0, arrived[name] - at) / 1000 for name, at in self._replied.items() if name in arrived]
        assert len(waits) == len(self._replied), f"{len(waits):,} of {len(self._replied):,} arrived"
        self.steady.append((median(requests), quantiles(requests, n=100)[98], median(waits or [0.0]), cpu))

    async def burst(self, number: int) -> None:
        say(f"{self.system.name}: {BURST:,} by {CONNECTIONS} connections, {number} of {ROUNDS}")
        _, seconds, cpu = await self._loaded(f"burst{number}", BURST, lambda send: measure(send, CONNECTIONS, BURST))
        self.bursts.append((BURST / seconds, cpu))

    async def _loaded(
        self, prefix: str, count: int, load: Callable[[Ask], Coroutine[Any, Any, T]]
    ) -> tuple[T, float, float]:
        """What the load gave, the seconds until the last delivery was recorded, and the CPU of each message, less what
        the same processes spend in the same time without any."""
        send = self._post if self._payload else await self._buyer(prefix, count)
        self._replied.clear()
        self._sent += count
        began, before = time.perf_counter(), self._spent()
        result = await load(send)
        await self.system.until_recorded(self._sent)
        seconds = time.perf_counter() - began
        await asyncio.sleep(AFTERWARDS)
        spent = self._spent() - before - self._idle * (time.perf_counter() - began)
        return result, seconds, spent / count

    async def _buyer(self, prefix: str, count: int) -> Ask:
        buy = await self.system.buyer(prefix, count)
        if self.system.name != LATCHKEY:
            return buy

        async def send(number: int) -> None:
            await buy(number)
            self._replied[app_user_id(prefix, number)] = time.time_ns() // 1000

        return send

    async def _post(self, number: int) -> None:
        reply = await self.system.phones.post(self.system.url, number, TEST_STORE, self._payload)
        # The receiver's log is in lower case.
        self._replied[json.decode(reply)["id"].lower()] = time.time_ns() // 1000

    async def _arrived(self) -> dict[str, int]:
        """When messages arrived at the receiver, in microseconds, by the names in `_replied`."""
        lines = (await asyncio.to_thread(self.system.arrivals.read_text)).splitlines()
        arrived = {id: int(at) for at, _, id in (line.split(" ") for line in lines)}
        if self.system.name != LATCHKEY:
            return arrived
        buyers = await self.system.database.pool.fetch(BUYERS)
        return {buyer: arrived[id] for id, buyer in buyers if id in arrived}

    def _spent(self) -> float:
        return sum(ms for name, ms in self.system.spent().items() if name not in (SINK, GENERATOR))


async def run(ground: Ground, installed: Installed) -> list[Row]:
    async with (
        latchkey(ground) as ours,
        svix(ground, installed, ours) as theirs,
        ceiling(ground) as handler,
        rows_alone(ground) as writer,
    ):
        own, bare, rows = Peer(ours), Peer(handler), Peer(writer)
        for one in (own, bare, rows):
            await one.warm_up()
        event = await ours.database.pool.fetchval("select body from events order by position desc limit 1")
        peer = Peer(theirs, json.encode({"eventType": "purchase", "payload": {"event": Raw(event)}}))
        await peer.warm_up()
        for number in range(1, ROUNDS + 1):
            for one in (peer, own, bare, rows):
                await one.steadily(number)
        for number in range(1, ROUNDS + 1):
            await peer.burst(number)
            await own.burst(number)
    return [*_rows(own, peer), *_floor(bare, peer, "of a bare handler"), *_floor(rows, peer, "of the rows alone")]


def _rows(own: Peer, peer: Peer) -> list[Row]:
    steady, burst = f"{RATE}/s:", f"burst of {BURST:,}:"
    p50, p99, received, cpu = _medians(own.steady, peer.steady)
    (rate, their_rate), burst_cpu = _medians(own.bursts, peer.bursts)
    recorded = f"{burst} recorded deliveries"
    return [
        _row(f"{steady} request, p50", p50, p50[1], "≤ Svix"),
        _row(f"{steady} request, p99", p99, p99[1], "≤ Svix"),
        _row(f"{steady} acknowledged to receiver, p50", received, RECEIVED_MS),
        _row(f"{steady} CPU with the delivery", cpu, CPU_MS),
        Row(recorded, rate, "/s", their_rate, rate / their_rate, f"≥ {RECORDED:,}/s", rate >= RECORDED),
        _row(f"{burst} CPU with the delivery", burst_cpu, BURST_CPU_MS),
    ]


def _floor(floor: Peer, peer: Peer, of: str) -> list[Row]:
    """Nothing is asked of it."""
    p50, p99, _, cpu = _medians(floor.steady, peer.steady)
    told = {"request, p50": p50, "request, p99": p99, "CPU": cpu}
    return [Row(f"{RATE}/s: {name}, {of}", ours, "ms", theirs, theirs / ours) for name, (ours, theirs) in told.items()]


def _medians(own: list[tuple[float, ...]], peer: list[tuple[float, ...]]) -> list[tuple[float, float]]:
    """Of all rounds: each figure of Latchkey, and of Svix."""
    ours, theirs = ([median(figures) for figures in zip(*rounds, strict=True)] for rounds in (own, peer))
    return list(zip(ours, theirs, strict=True))


def _row(name: str, figures: tuple[float, float], at_most: float, bar: str = "") -> Row:
    ours, theirs = figures
    return Row(name, ours, "ms", theirs, theirs / ours if ours else None, bar or f"≤ {at_most:g} ms", ours <= at_most)
