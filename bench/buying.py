"""Two systems that take purchases and deliver their events to one TLS receiver: Latchkey, and a bare one that it is
compared with. Both consist of real processes. Purchases are receipts, as phones send them."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import psutil  # type: ignore[import-untyped]  # its stubs are a separate package
from msgspec import json
from pyreqwest.client import Client

from bench import bare
from bench.ground import Ground
from bench.load import client
from bench.phones import Phones, Receipts
from bench.population import settle, subscriber
from bench.processor import spent_ms
from bench.startup import up
from latchkey.database.pool import Database
from latchkey.domain.instants import DAY
from latchkey.emulators.emulator_server import running
from latchkey.now import real_now
from latchkey.subjects.demo.usecases.project import PROJECT_ID

Ask: TypeAlias = Callable[[int], Coroutine[Any, Any, None]]
# The names under which the costs of both systems are shown. Processes of `latchkey up` that answer also deliver.
API, OTHERS, POSTGRESQL, SINK, GENERATOR = "api", "other processes", "PostgreSQL", "receiver", "load generator"

LATCHKEY = "Latchkey"

RECORDED = "select count(*) from deliveries where status = 'delivered'"
BARE_RECORDED = "select count(*) from bare_attempts where status = 200"
COMMITTED = "select id, committed_at as at from events"
BARE_COMMITTED = "select id::text, at from bare_rows"
WRITTEN = "select count(*) from events"
# Nobody asks what is in it.
WEBHOOK = """
insert into webhooks (
    project_id, id, name, url, retry_seconds, in_flight_limit, secret_sealed, created_at, updated_at
)
values ($1, 'rows', 'rows', 'https://localhost/', '{60}', 400, '', 0, 0)
"""


@dataclass(frozen=True, slots=True)
class System:
    name: str
    url: str
    # With the secret key.
    http: Client
    receipts: Receipts
    database: Database
    # By name: processes, each with everything that it started.
    pids: Mapping[str, Sequence[int]]
    phones: Phones = None  # type: ignore[assignment]  # given before anybody buys
    arrivals: Path = Path()
    # The address of its receiver.
    target: str = ""
    # Of its certificate, and where the App Store sends notifications.
    authority: Path = Path()
    notification_url: str = ""
    recorded: str = RECORDED
    committed: str = COMMITTED
    # `kill -9` of what answers and delivers; it is started again.
    kill: Callable[[], Coroutine[Any, Any, None]] = None  # type: ignore[assignment]  # not every system is killed

    async def buyer(self, prefix: str, count: int) -> Ask:
        """Sends the receipt of this number. Half of the customers are known, and all receipts are signed before."""
        if self.name == LATCHKEY:
            await settle(self.database, f"{prefix}-known", subscriber(real_now() - 5 * DAY), count // 2 + 1)
        written = await asyncio.to_thread(self.receipts.write, prefix, count)
        path = f"{self.url}/v1/receipts" if self.name == LATCHKEY else f"{self.url}/{prefix}"
        return lambda number: self.phones.show(path, number, *written[number])

    async def check(self, prefix: str) -> None:
        """Checks that the first customers of each kind have the access that they bought."""
        bought = {"new0": "pro_monthly", "known0": "pro_yearly", "new2": "pro_monthly", "known1": "pro_yearly"}
        for who, product_id in bought.items() if self.name == LATCHKEY else ():
            response = await self.http.get(f"{self.url}/v1/subscribers/{prefix}-{who}").build().send()
            subscriber = json.decode(bytes(await response.bytes()))["subscriber"]
            assert product_id in subscriber["subscriptions"], subscriber
            assert "pro" in subscriber["entitlements"], subscriber

    def spent(self) -> dict[str, float]:
        """CPU milliseconds so far, by name."""
        spent = {name: sum(map(spent_ms, pids)) for name, pids in self.pids.items()}
        return spent | {GENERATOR: time.process_time() * 1000}

    async def until_recorded(self, count: int, patience: float = 300.0) -> None:
        """Wait until so many deliveries are recorded since the system started."""
        deadline = time.monotonic() + patience
        while (found := await self.database.pool.fetchval(self.recorded)) < count:
            assert time.monotonic() < deadline, f"{found} of {count} deliveries were recorded"
            await asyncio.sleep(0.02)

    async def waits(self) -> list[tuple[int, float]]:
        """Of each event the instant `committed_at`, which is taken just before its commit, and the milliseconds from
        then to its arrival, as far as the receiver has logged them."""
        committed = {row["id"]: row["at"] for row in await self.database.pool.fetch(self.committed)}
        lines = (await asyncio.to_thread(self.arrivals.read_text)).splitlines()
        arrived = [(id, int(at) / 1000) for at, _, id in (line.split(" ") for line in lines)]
        return [(committed[id], max(0.0, at - committed[id])) for id, at in arrived if id in committed]


@asynccontextmanager
async def latchkey(ground: Ground, *, whole: bool = False) -> AsyncIterator[System]:
    """`latchkey up` in a new folder, with one webhook. `whole`: with all that a user's first start has, such as the
    demo's consumer and its year of customers."""
    async with AsyncExitStack() as stack:
        receipts = Receipts()
        served = await stack.enter_async_context(running(receipts.store))
        folder = ground.folder / "up"
        settings = {
            "LATCHKEY_STORE_ALLOW_HOSTS": served.base_url.partition("//")[2],
            "LATCHKEY_WEBHOOK_EXTRA_CA": str(ground.certificates.authority),
        }
        options = () if whole else ("--no-history", "--no-stores")
        started = await stack.enter_async_context(up(folder, *options, **settings))
        told = json.decode((folder / "connection.json").read_bytes())
        database = await stack.enter_async_context(Database(told["database_url"], max_size=4))
        http = await stack.enter_async_context(client(Path(told["ca_cert"]), told["api_key"]))
        pids, kill = await _processes(started.pid), partial(_kill, started.pid)
        await _until_all_listen(pids[API])
        system = System(LATCHKEY, told["base_url"], http, receipts, database, pids, kill=kill)
        public_key, authority = told["public_api_key"], Path(told["ca_cert"])
        yield await _with_app(stack, ground, system, public_key, authority, served.base_url, alone=not whole)


@asynccontextmanager
async def apart(ground: Ground, database_url: str = "", workers: int = 1) -> AsyncIterator[System]:
    """Latchkey with a process of its own for each role, on the database of the benchmark, with one webhook."""
    async with AsyncExitStack() as stack:
        receipts = Receipts()
        served = await stack.enter_async_context(running(receipts.store))
        ground = replace(ground, store_hosts=(served.base_url.partition("//")[2],))
        assert ground.server.pid is not None
        pids: dict[str, list[int]] = {API: [], OTHERS: [], POSTGRESQL: [ground.server.pid]}
        url = ""
        for role in ("api", "clock", "delivery"):
            processes = ground.processes(role, database_url=database_url, workers=workers)
            service = await stack.enter_async_context(processes)
            pids[API if role == "api" else OTHERS] += service.pids.values()
            url = url or service.url
        authority = ground.certificates.authority
        http = await stack.enter_async_context(client(authority, ground.key))
        system = System(LATCHKEY, url, http, receipts, ground.database, pids)
        yield await _with_app(stack, ground, system, ground.public_key, authority, served.base_url)


@asynccontextmanager
async def ceiling(ground: Ground, database_url: str = "") -> AsyncIterator[System]:
    """One process inserts one row and queues it, another delivers it."""
    database_url = database_url or ground.server.url()
    async with AsyncExitStack() as stack:
        await ground.database.pool.execute(bare.TABLES)
        target, sink, arrivals = await _receiver(stack, ground, "bare_arrivals.log")
        words = [database_url, str(ground.certificates.cert), str(ground.certificates.key)]
        url, api = await stack.enter_async_context(ground.listening("bench.ceilings", "steady", *words))
        words = [database_url, target, str(ground.certificates.authority)]
        _, delivery = await stack.enter_async_context(_speaking("bench.bare", *words))
        phones = await stack.enter_async_context(Phones(ground.certificates.authority, ("", "")))
        http = await stack.enter_async_context(client(ground.certificates.authority))
        assert ground.server.pid is not None
        pids = {API: [api, delivery], OTHERS: [], POSTGRESQL: [ground.server.pid], SINK: [sink]}
        bare_system = System("the ceiling", url, http, Receipts(), ground.database, pids, phones, arrivals)
        yield replace(bare_system, recorded=BARE_RECORDED, committed=BARE_COMMITTED)


@asynccontextmanager
async def rows_alone(ground: Ground) -> AsyncIterator[System]:
    """One process that looks and writes as a purchase does, without rules. Nobody delivers."""
    async with AsyncExitStack() as stack:
        await ground.database.pool.execute(WEBHOOK, PROJECT_ID)
        words = [ground.server.url(), str(ground.certificates.cert), str(ground.certificates.key)]
        url, api = await stack.enter_async_context(ground.listening("bench.ceilings", "rows", *words))
        phones = await stack.enter_async_context(Phones(ground.certificates.authority, ("", "")))
        http = await stack.enter_async_context(client(ground.certificates.authority))
        nothing = ground.folder / "nothing.log"
        nothing.touch()
        assert ground.server.pid is not None
        pids = {API: [api], OTHERS: [], POSTGRESQL: [ground.server.pid]}
        one = System("the rows alone", url, http, Receipts(), ground.database, pids, phones, nothing)
        yield replace(one, recorded=WRITTEN)


async def _with_app(
    stack: AsyncExitStack,
    ground: Ground,
    system: System,
    public_key: str,
    authority: Path,
    store_url: str,
    *,
    alone: bool = True,
) -> System:
    """The system with an app in the App Store, with phones, and with a receiver, as the only webhook if it is alone."""
    key, notification_url = await connect(system.http, system.url, system.receipts.store.credentials(store_url))
    phones = await stack.enter_async_context(Phones(authority, (public_key, key)))
    hooks = f"{system.url}/v2/projects/{PROJECT_ID}/integrations/webhooks"
    for hook in (await ask(system.http.get(hooks)))["items"] if alone else ():
        await ask(system.http.delete(f"{hooks}/{hook['id']}"))
    target, sink, arrivals = await _receiver(stack, ground, "arrivals.log")
    given = {"name": "bench", "url": target, "authorization_header": "Bearer secret", "in_flight_limit": 400}
    await ask(system.http.post(hooks).body_json(given))
    return replace(
        system,
        phones=phones,
        arrivals=arrivals,
        target=target,
        pids={**system.pids, SINK: [sink]},
        authority=authority,
        notification_url=notification_url,
    )


async def connect(http: Client, url: str, credentials: Mapping[str, Any]) -> tuple[str, str]:
    """An app in the App Store; gives its public key and its notification URL."""
    apps = f"{url}/v2/projects/{PROJECT_ID}/apps"
    app = await ask(http.post(apps).body_json({"name": "Notes", "type": "app_store"}))
    saved = await ask(http.put(f"{apps}/{app['id']}/credentials").body_json(dict(credentials)))
    assert saved["check"]["result"] == "ok", saved
    return app["public_api_key"]["key"], saved["notification_url"]


async def ask(request: Any) -> Any:
    """The decoded reply."""
    response = await request.build().send()
    assert response.status < 300, f"status {response.status}: {await response.text()}"
    return json.decode(bytes(await response.bytes()))


async def _receiver(stack: AsyncExitStack, ground: Ground, log: str) -> tuple[str, int, Path]:
    """`bench.sink` as its own process: its address, its process id and its log."""
    arrivals = ground.folder / log
    arrivals.unlink(missing_ok=True)
    words = [str(ground.certificates.cert), str(ground.certificates.key), str(arrivals)]
    port, pid = await stack.enter_async_context(_speaking("bench.sink", *words))
    return f"https://localhost:{port}/", pid, arrivals


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


async def _kill(supervisor: int) -> None:
    """Its supervisor starts others."""
    for pid in (await _processes(supervisor))[API]:
        os.kill(pid, signal.SIGKILL)


async def _until_all_listen(pids: Sequence[int]) -> None:
    """`up` is up when the first process answers. Whoever connects before the others listen stays with the first."""
    while not all(  # noqa: ASYNC110 - other processes
        any(one.status == psutil.CONN_LISTEN for one in psutil.Process(pid).net_connections("tcp")) for pid in pids
    ):
        await asyncio.sleep(0.1)


async def _processes(supervisor: int) -> dict[str, list[int]]:
    """The processes of `latchkey up`, by the names of their costs, once they are all there."""
    names = {"api,delivery": API, "clock": OTHERS, "postgres": POSTGRESQL}
    while True:
        children = psutil.Process(supervisor).children()
        # A process that has not begun yet has the name of the command.
        if all(one.name() != "latchkey" for one in children):
            break
        await asyncio.sleep(0.1)
    found: dict[str, list[int]] = {}
    for one in children:
        found.setdefault(names.get(one.name(), one.name()), []).append(one.pid)
    return found
