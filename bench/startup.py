"""`latchkey up` from the command to "Latchkey is up", what takes the time, and the first page of the dashboard.

Seen from outside: a process, its output, its HTTPS address. The first start makes the database and warms the machine's
caches; those after it count.
"""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from msgspec import json
from pyreqwest.client import Client

from bench.ground import Ground
from bench.load import client
from bench.processor import spent_ms
from bench.table import Row, say
from latchkey.dashboard.cookie import SESSION
from latchkey.database.pool import Database
from latchkey.now import real_now
from latchkey.observability.storage import watch_lists
from latchkey.subjects.accounts.usecases import sessions
from latchkey.subjects.accounts.usecases.accounts import find_account
from latchkey.subjects.demo.usecases.history import is_wanted

STARTS = 5
READY_S, PAGE_MS = 3.0, 150.0
# Between the page for signing in and the one after it.
TYPING_S = 2.0
# From the command to charts that show the demo's year, in a new folder.
YEAR_S = 10.0
LATCHKEY = Path(sys.executable).with_name("latchkey")
IS_UP = "Latchkey is up"


@dataclass(frozen=True, slots=True)
class Start:
    pid: int
    seconds: float
    # What it says it is doing, and the seconds until it says the next.
    phases: dict[str, float]
    # CPU seconds of all its processes, PostgreSQL's among them.
    cpu: float
    sign_in_ms: float = 0.0
    overview_ms: float = 0.0
    again_ms: float = 0.0
    # Until the charts show the demo's year.
    year: float = 0.0


async def run(ground: Ground) -> list[Row]:
    folder = ground.folder / "up"
    say("latchkey up: the first start")
    first = await _start(folder, with_year=True)
    say("latchkey up --no-history: the first start")
    bare = await _start(ground.folder / "up-bare", "--no-history")
    starts = []
    for number in range(1, STARTS + 1):
        say(f"latchkey up: start {number} of {STARTS}")
        starts.append(await _start(folder))
    ready = median(start.seconds for start in starts)
    rows = [Row("latchkey up to ready", ready, "s", bar=f"≤ {READY_S:g} s", holds=ready <= READY_S)]
    for phase in starts[0].phases:
        rows += [Row(f"latchkey up: {phase}", median(start.phases.get(phase, 0.0) for start in starts), "s")]
    rows.append(Row("latchkey up: CPU of all processes until ready", median(start.cpu for start in starts), "s"))
    rows.append(Row("latchkey up for the first time in a folder", first.seconds, "s"))
    rows.append(
        Row("the same with --no-history", bare.seconds, "s", bar=f"≤ {READY_S:g} s", holds=bare.seconds <= READY_S)
    )
    rows.append(
        Row(
            "latchkey up to charts of the demo's year",
            first.year,
            "s",
            bar=f"≤ {YEAR_S:g} s",
            holds=first.year <= YEAR_S,
        )
    )
    return [
        *rows,
        _page("first page of the dashboard: sign in", [start.sign_in_ms for start in starts]),
        _page("first page after signing in: overview", [start.overview_ms for start in starts]),
        Row("the same page again", median(start.again_ms for start in starts), "ms"),
    ]


async def _start(folder: Path, *options: str, with_year: bool = False) -> Start:
    async with up(folder, *options) as start:
        connection = json.decode((folder / "connection.json").read_bytes())
        year = start.seconds + await _year(connection) if with_year else 0.0
        async with client(Path(connection["ca_cert"])) as http:
            sign_in, overview, again = await _pages(http, connection)
            return replace(start, sign_in_ms=sign_in, overview_ms=overview, again_ms=again, year=year)


async def _year(connection: dict[str, Any]) -> float:
    """The seconds until the year is written, and charts and customer lists have read all of it."""
    began = time.perf_counter()
    async with Database(connection["database_url"], max_size=1) as database:
        while True:
            wanted = await is_wanted(database, connection["project_id"])
            async with database.acquire() as session:
                lists = await watch_lists(session)
            if not wanted and lists.behind == 0:
                return time.perf_counter() - began
            await asyncio.sleep(0.05)


@asynccontextmanager
async def up(folder: Path, *options: str, **more: str) -> AsyncIterator[Start]:
    """The command as users run it, until the block ends; `more` is for its environment."""
    # Without bytecode files Python would compile all code at every start.
    left_out = ("LATCHKEY_", "PYTHONDONTWRITEBYTECODE")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *(str(LATCHKEY), "up", "--data", str(folder), "--port", "0", *options),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environment | more,
    )
    assert process.stdout is not None
    try:
        phase, phases, since = "loading the command", dict[str, float](), began
        while True:
            line = (await process.stdout.readline()).decode()
            assert line, f"latchkey up ended with {await process.wait()}"
            now = time.perf_counter()
            if IS_UP in line or line.rstrip().endswith("..."):
                phases[phase] = phases.get(phase, 0.0) + now - since
                phase, since = line.strip().removesuffix("...").strip(), now
            if IS_UP in line:
                break
        cpu = spent_ms(process.pid) / 1000
        reading = asyncio.create_task(process.stdout.read())
        yield Start(process.pid, now - began, phases, cpu)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
    await reading


async def _pages(http: Client, connection: dict[str, Any]) -> tuple[float, float, float]:
    """The first request of all, with its TLS handshake; then, once a person can have typed a password, the first page
    of the project, twice."""
    url = connection["dashboard"]["url"]
    sign_in = await _get(http, url)
    await asyncio.sleep(TYPING_S)
    async with Database(connection["database_url"], max_size=1) as database:
        account = await find_account(database, connection["dashboard"]["email"])
        assert account is not None
        token = await sessions.open_session(database, account.id, "127.0.0.1", "bench", real_now())
    overview = f"{url}/projects/{connection['project_id']}"
    return sign_in, await _get(http, overview, token), await _get(http, overview, token)


async def _get(http: Client, url: str, token: str = "") -> float:
    began = time.perf_counter()
    reply = await http.get(url).header("cookie", f"{SESSION}={token}").build().send()
    body = await reply.text()
    took = (time.perf_counter() - began) * 1000
    assert reply.status == 200, f"{url}: {reply.status} {body[:300]}"
    return took


def _page(name: str, taken: Sequence[float]) -> Row:
    value = median(taken)
    return Row(name, value, "ms", bar=f"≤ {PAGE_MS:g} ms", holds=value <= PAGE_MS)
