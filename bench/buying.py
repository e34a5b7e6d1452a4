"""Two systems that take purchases and deliver their events to one TLS receiver: Latchkey, and a bare one that it is
compared with. Both consist of real processes."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import json
from pyreqwest.client import Client

from bench import bare
from bench.ground import Ground
from bench.load import client
from bench.population import settle, subscriber
from bench.processor import spent_ms
from latchkey.delivery.sealing import Sealer
from latchkey.delivery.webhook import Setup, Webhooks
from latchkey.domain.instants import DAY
from latchkey.now import real_now

Ask: TypeAlias = Callable[[int], Coroutine[Any, Any, None]]
# The names under which the costs of both systems are shown.
API, DELIVERY, POSTGRESQL, SINK, GENERATOR = "api", "delivery and clock", "PostgreSQL", "receiver", "load generator"

LATCHKEY = "Latchkey"

CLEAR = "truncate lanes, deliveries, attempts; delete from webhooks"
RECORDED = "select count(*) from deliveries where status = 'delivered'"
BARE_RECORDED = "select count(*) from bare_attempts where status = 200"
COMMITTED = "select id, committed_at as at from events"
BARE_COMMITTED = "select id::text, at from bare_rows"


@dataclass(frozen=True, slots=True)
class System:
    name: str
    ground: Ground
    url: str
    http: Client
    # By a prefix of its own for each run: sends the purchase of this number.
    buyer: Callable[[str], Ask]
    pids: Mapping[str, int]
    arrivals: Path
    recorded: str
    committed: str

    def spent(self) -> dict[str, float]:
        """CPU milliseconds so far, by name."""
        return {name: spent_ms(pid) for name, pid in self.pids.items()} | {GENERATOR: time.process_time() * 1000}

    async def until_recorded(self, count: int, patience: float = 300.0) -> None:
        """Wait until so many deliveries are recorded since the system started."""
        deadline = time.monotonic() + patience
        while (found := await self.ground.database.pool.fetchval(self.recorded)) < count:
            assert time.monotonic() < deadline, f"{found} of {count} deliveries were recorded"
            await asyncio.sleep(0.02)

    async def waits(self) -> list[tuple[int, float]]:
        """Of each event the instant `committed_at`, which is taken just before its commit, and the milliseconds from
        then to its arrival. Only after the receiver has ended: its log is complete then."""
        committed = {row["id"]: row["at"] for row in await self.ground.database.pool.fetch(self.committed)}
        lines = (await asyncio.to_thread(self.arrivals.read_text)).splitlines()
        arrived = [(id, int(at) / 1000) for at, _, id in (line.split(" ") for line in lines)]
        return [(committed[id], max(0.0, at - committed[id])) for id, at in arrived if id in committed]


@asynccontextmanager
async def latchkey(ground: Ground, database_url: str = "", *, apart: bool = False) -> AsyncIterator[System]:
    """The processes of `latchkey serve`, and one webhook. With `apart`, each role has a process of its own."""
    async with AsyncExitStack() as stack:
        await ground.database.pool.execute(CLEAR)
        arrivals = ground.folder / "arrivals.log"
        arrivals.unlink(missing_ok=True)
        target, sink = await stack.enter_async_context(_receiver(ground, arrivals))
        await _hook(ground, target)
        pids: dict[str, int] = {}
        url = ""
        for roles in (("api",), ("clock",), ("delivery",)) if apart else (("api", "clock", "delivery"),):
            service = await stack.enter_async_context(ground.processes(*roles, database_url=database_url))
            pids |= {API if name == "api-1" else DELIVERY: pid for name, pid in service.pids.items()}
            url = url or service.url
        http = await stack.enter_async_context(client(ground.certificates.authority, ground.key))
        path = f"{url}/v2/projects/{ground.project_id}/test_store/actions"

        def buyer(prefix: str) -> Ask:
            return lambda number: post(http, path, purchase(prefix, number))

        pids = _with_rest(ground, pids, sink)
        yield System(LATCHKEY, ground, url, http, buyer, pids, arrivals, RECORDED, COMMITTED)


@asynccontextmanager
async def ceiling(ground: Ground, database_url: str = "") -> AsyncIterator[System]:
    """One process inserts one row and queues it, another delivers it."""
    database_url = database_url or ground.server.url()
    async with AsyncExitStack() as stack:
        await ground.database.pool.execute(bare.TABLES)
        arrivals = ground.folder / "bare_arrivals.log"
        arrivals.unlink(missing_ok=True)
        target, sink = await stack.enter_async_context(_receiver(ground, arrivals))
        words = [database_url, str(ground.certificates.cert), str(ground.certificates.key)]
        url, api = await stack.enter_async_context(ground.listening("bench.ceilings", "steady", *words))
        words = [database_url, target, str(ground.certificates.authority)]
        _, delivery = await stack.enter_async_context(_speaking("bench.bare", *words))
        http = await stack.enter_async_context(client(ground.certificates.authority))

        def buyer(prefix: str) -> Ask:
            return lambda number: post(http, f"{url}/{prefix}{number}", purchase(prefix, number))

        pids = _with_rest(ground, {API: api, DELIVERY: delivery}, sink)
        yield System("the ceiling", ground, url, http, buyer, pids, arrivals, BARE_RECORDED, BARE_COMMITTED)


def purchase(prefix: str, number: int) -> bytes:
    """Even numbers are new customers, odd ones are known (see `know`)."""
    new = number % 2 == 0
    return json.encode(
        {
            "action": "purchase",
            "app_user_id": f"{prefix}-new{number}" if new else f"{prefix}-known{number // 2}",
            "product_id": "pro_monthly" if new else "pro_yearly",
        }
    )


async def check(system: System, prefix: str) -> None:
    """Checks that the first new and the first known customer have the access that they bought."""
    if system.name != LATCHKEY:
        return
    for app_user_id, product_id in ((f"{prefix}-new0", "pro_monthly"), (f"{prefix}-known0", "pro_yearly")):
        response = await system.http.get(f"{system.url}/v1/subscribers/{app_user_id}").build().send()
        subscriber = json.decode(bytes(await response.bytes()))["subscriber"]
        assert product_id in subscriber["subscriptions"], subscriber
        assert "pro" in subscriber["entitlements"], subscriber


async def know(ground: Ground, prefix: str, count: int) -> None:
    """Customers for the odd ones of `count` purchases. They bought another product five days ago."""
    await settle(ground.database, f"{prefix}-known", subscriber(real_now() - 5 * DAY), count // 2 + 1)


async def post(http: Client, url: str, body: bytes) -> None:
    response = await http.post(url).header("content-type", "application/json").body_bytes(body).build().send()
    if response.status != 200:
        raise RuntimeError(f"status {response.status}: {await response.text()}")
    await response.bytes()


async def _hook(ground: Ground, target: str) -> None:
    setup = Setup(name="bench", url=target, authorization="Bearer secret", in_flight_limit=400)
    await Webhooks(ground.database, Sealer(ground.secret)).create(ground.project_id, setup, real_now())


@asynccontextmanager
async def _receiver(ground: Ground, log: Path) -> AsyncIterator[tuple[str, int]]:
    """`bench.sink` as its own process; yields its address and process id."""
    words = [str(ground.certificates.cert), str(ground.certificates.key), str(log)]
    async with _speaking("bench.sink", *words) as (port, pid):
        yield f"https://localhost:{port}/", pid


@asynccontextmanager
async def _speaking(module: str, *words: str) -> AsyncIterator[tuple[str, int]]:
    """A module as a process; yields the first line that it prints, and its process id."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *words), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        line = (await process.stdout.readline()).decode().strip()
        assert line, f"{module} did not start"
        yield line, process.pid
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def _with_rest(ground: Ground, pids: Mapping[str, int], sink: int) -> dict[str, int]:
    assert ground.server.pid is not None
    return {**pids, POSTGRESQL: ground.server.pid, SINK: sink}
