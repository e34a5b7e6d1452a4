"""One statement after the other on a plain PostgreSQL and on a Citus cluster: the same work, in alternating rounds.

The cluster has a coordinator and two workers on this machine, with the same settings as the plain server. Latchkey's
own code does the work, so that what a process adds for a distributed database counts as well.
"""

import asyncio
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TypeAlias

from bench.ground import NO_LIMIT, Ground
from bench.table import Row, say
from latchkey.database.distribution.distribute import distribute
from latchkey.database.embedded.data_files import configuration
from latchkey.database.migrate import migrate
from latchkey.database.pool import Database, connect
from latchkey.database.sealing import Sealer
from latchkey.domain.stores.test_store.orders import Action
from latchkey.engine.changes import Changes
from latchkey.engine.reads import Reader
from latchkey.engine.storage.catalog.catalogs import Catalogs
from latchkey.engine.storage.scans import look_out
from latchkey.now import real_now
from latchkey.subjects.api_keys.usecases import create_secret_key, hash_of
from latchkey.subjects.demo.usecases.project import PROJECT_ID, ensure_demo
from latchkey.subjects.events.usecases import page_of_events
from latchkey.subjects.test_store import usecases as test_store
from latchkey.subjects.webhooks.rules import Setup
from latchkey.subjects.webhooks.storage import lanes
from latchkey.subjects.webhooks.storage import lanes as recording
from latchkey.subjects.webhooks.usecases.registry import Registry
from tests.citus.cluster import HOW_TO_RUN, cluster, is_named

ROUNDS = 25
BATCH, CLAIMED, PAGE = 28, 100, 100
# For as many deliveries as are claimed.
BATCHES = 4
LEASE = 75_000
# By the name of the work: how many times as long as on a plain server it may take.
BARS = {
    f"{BATCH} purchases in one batch": 2.0,
    f"{BATCH} reads in one batch": 1.5,
    f"claim and record {CLAIMED} deliveries": 2.0,
    "a page of the feed": 1.5,
    "scan for what is due": None,
}
PURCHASES, READS, CLAIMS, FEED, SCAN = BARS
# As the plain server has it; the rest is of the cluster itself.
_SAME = ("shared_buffers", "wal_compression", "max_wal_size", "checkpoint_timeout", "random_page_cost", "work_mem")
_PLAIN = dict(re.findall(r"^(\w+) = '(.*)'", configuration(Path(), {}), re.MULTILINE))
DURABLE = {
    **{name: _PLAIN[name] for name in _SAME},
    "fsync": "on",
    "full_page_writes": "on",
    "autovacuum": "on",
}

Work: TypeAlias = Callable[[], Awaitable[None]]


@dataclass
class Side:
    """One of the two databases, and what was measured there."""

    name: str
    database: Database
    key_hash: bytes
    webhook_key: int
    changes: Changes
    reader: Reader
    taken: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    batches: list[int] = field(default_factory=list)
    first_event: str = ""
    _bought: int = 0

    async def timed(self, what: str, work: Work) -> None:
        began = time.perf_counter()
        await work()
        self.taken[what].append((time.perf_counter() - began) * 1000)

    async def buy(self) -> None:
        first, self._bought = self._bought, self._bought + BATCH
        actions = [
            Action(name="purchase", app_user_id=f"buyer{n}", new_id=f"test_{n}", product_id="pro_monthly")
            for n in range(first, first + BATCH)
        ]
        done = await asyncio.gather(*(test_store.act(self.changes, PROJECT_ID, action) for action in actions))
        assert all(one.events for one in done)
        self.first_event = self.first_event or done[0].events[0].id

    async def read(self) -> None:
        asked = [f"buyer{n}" for n in range(BATCH)]
        answers = await asyncio.gather(*(self.reader.admit(self.key_hash, one) for one in asked))
        assert all(answer.row is not None for answer in answers)

    async def claim_and_record(self) -> None:
        now = real_now()
        claims = await lanes.claim_lane(self.database, {self.webhook_key: CLAIMED}, now, now + LEASE)
        assert len(claims) == CLAIMED, len(claims)
        attempt = recording.AttemptResult(
            now, 3, 200, None, b'{"content-type":"application/json"}', b'[["server","x"]]'
        )
        outcomes = [recording.DeliveryOutcome(claim, attempt, None) for claim in claims]
        recorded, _ = await recording.record_attempts(self.database, outcomes, now)
        assert len(recorded) == CLAIMED

    async def page(self) -> None:
        found = await page_of_events(self.database, PROJECT_ID, after=self.first_event, limit=PAGE)
        assert len(found.bodies) == PAGE

    async def scan(self) -> None:
        async with self.database.acquire() as connection:
            await look_out(connection)

    async def round(self) -> None:
        for _ in range(BATCHES):
            await self.timed(PURCHASES, self.buy)
        await self.timed(READS, self.read)
        await self.timed(CLAIMS, self.claim_and_record)
        await self.timed(FEED, self.page)
        await self.timed(SCAN, self.scan)


async def run(ground: Ground) -> list[Row]:
    if not is_named():
        say(f"NOT MEASURED: no Citus cluster is named. {HOW_TO_RUN}")
        return []
    async with (
        cluster(ground.folder / "citus", DURABLE) as nodes,
        nodes.database() as url,
        _side(ground, "plain", ground.server.url()) as plain,
        _side(ground, "Citus", url, spread=True) as citus,
    ):
        sides = (plain, citus)
        for side in sides:
            say(f"{side.name}: warm-up")
            for _ in range(3):
                await side.round()
            side.taken.clear()
            side.batches.clear()
        for number in range(1, ROUNDS + 1):
            say(f"round {number} of {ROUNDS}")
            for side in sides:
                await side.round()
        for side in sides:
            assert set(side.batches) == {BATCH}, f"the purchases of {side.name} were not in one batch: {side.batches}"
    return [_row(what, bar, median(citus.taken[what]), median(plain.taken[what])) for what, bar in BARS.items()]


def _row(what: str, bar: float | None, citus: float, plain: float) -> Row:
    ratio = citus / plain
    said = f"≤ {bar:g} of plain" if bar is not None else ""
    return Row(f"Citus: {what}", citus, "ms", plain, ratio, said, ratio <= bar if bar is not None else None)


@asynccontextmanager
async def _side(ground: Ground, name: str, url: str, *, spread: bool = False) -> AsyncIterator[Side]:
    if spread:
        connection = await connect(url)
        await migrate(connection)
        await distribute(connection)
        await connection.close()
    async with Database(url, max_size=4) as database:
        now = real_now()
        await ensure_demo(database, now, secret_key=None, public_key=None)
        key = await create_secret_key(database, PROJECT_ID, "bench", now, rate_limit=NO_LIMIT)
        setup = Setup(name="bench", url="https://localhost:1/", authorization="Bearer x", in_flight_limit=400)
        webhook = await Registry(database, Sealer(ground.secret)).add(PROJECT_ID, setup, now)
        batches: list[int] = []
        changes = Changes(database, real_now, measure=batches.append)
        reader = Reader(database, Catalogs())
        yield Side(name, database, hash_of(key.plaintext), webhook.key, changes, reader, batches=batches)
        await changes.drain()
