"""Large tables: what the hot statements cost the database with few rows, with many, and with many partitions.

Each site is a database with synthetic events, deliveries and attempts. Rounds alternate between the sites, and what is
compared is the processor time of the database's process, so that a busy machine disturbs little. `MILLIONS=20` fills
the largest two sites with 20 million rows of each of the three tables (about 1.2 GB for each million).
"""

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from rich.progress import track

from bench.ground import Ground
from bench.synthetic import FIRST_CUSTOMER, fill
from bench.table import Row, say
from latchkey.database.migrate import migrate
from latchkey.database.pool import Database, connect
from latchkey.database.sealing import Sealer
from latchkey.database.sql import query
from latchkey.domain.partitions import PARTS_OF_EVENTS
from latchkey.domain.stores.test_store.orders import Action
from latchkey.engine.changes import Changes
from latchkey.now import real_now
from latchkey.subjects.demo.usecases.project import PROJECT_ID, ensure_demo
from latchkey.subjects.test_store import usecases as test_store
from latchkey.subjects.webhooks.rules import Setup
from latchkey.subjects.webhooks.storage import lanes
from latchkey.subjects.webhooks.storage import lanes as parts
from latchkey.subjects.webhooks.storage import lanes as recording
from latchkey.subjects.webhooks.storage.lanes import AttemptResult
from latchkey.subjects.webhooks.usecases.registry import Registry

FEW = 50_000
ROUNDS = 15
# Of one operation in one round.
TIMES = 40
LARGEST = 2**62


@dataclass
class Site:
    name: str
    rows: int
    # Partitions of events, and parts of deliveries in each of them.
    partitions: int
    parts_each: int
    database: Database
    process: int
    webhook: int
    customers: int
    # The newest part.
    newest: int
    chance: random.Random = field(default_factory=lambda: random.Random(17))
    number: int = 0

    def position(self) -> int:
        return self.chance.randrange(1, self.rows + 1)

    async def do(self, name: str, *values: object) -> None:
        async with self.database.at_hand() as connection:
            rows = await connection.fetch(query(name), *values)
        assert rows or name == "known_events", name

    def used(self) -> int:
        """Nanoseconds of processor time of the database's process."""
        return int(Path(f"/proc/{self.process}/schedstat").read_text().split()[0])


def _event(position: int) -> str:
    return f"evt_{position:032x}"


async def feed_page(site: Site) -> None:
    await site.do("events_after_event", PROJECT_ID, _event(max(site.position() - 20, 1)), 20, 0)


async def end_of_feed(site: Site) -> None:
    """As a reader who has asked before: the process knows the part of its last event."""
    await site.do("events_after_event", PROJECT_ID, _event(site.rows - 1), 20, site.newest)


async def event_by_id(site: Site) -> None:
    await site.do("event_by_id", PROJECT_ID, _event(site.position()))


async def timeline(site: Site) -> None:
    customer = FIRST_CUSTOMER + site.chance.randrange(site.customers)
    await site.do("newest_events_of_customer", PROJECT_ID, customer, LARGEST, 0, 0, 20)


async def delivery_list(site: Site) -> None:
    end = (LARGEST, LARGEST, LARGEST)
    await site.do("page_of_deliveries", site.webhook, *end, 0, None, None, 20, 20, None, None)


async def purchases(site: Site, amount: int) -> None:
    """So many at once, by new customers. Each makes two events."""
    changes = Changes(site.database, real_now)
    site.number += 1
    actions = [
        Action(
            name="purchase",
            app_user_id=f"buyer{site.number}-{n}",
            product_id="coins_100",
            new_id=f"big{site.number}-{n}",
        )
        for n in range(amount)
    ]
    await asyncio.gather(*(test_store.act(changes, PROJECT_ID, one) for one in actions))


async def claim(site: Site, claims: list[lanes.Claim], amount: int) -> None:
    now = real_now() + 1000
    claims[:] = await lanes.claim_lane(site.database, {site.webhook: amount}, now, now + 60_000)
    assert len(claims) == amount


async def record(site: Site, claims: Sequence[lanes.Claim]) -> None:
    now = real_now() + 1000
    done = [recording.DeliveryOutcome(one, AttemptResult(now, 1, 200, None, b"{}"), None) for one in claims]
    recorded, _ = await recording.record_attempts(site.database, done, now)
    assert len(recorded) == len(claims)


SINGLE: dict[str, Callable[[Site], Awaitable[None]]] = {
    "a page of the feed": feed_page,
    "the end of the feed": end_of_feed,
    "an event by its id": event_by_id,
    "a customer's timeline": timeline,
    "a webhook's deliveries": delivery_list,
}


async def run(ground: Ground) -> list[Row]:
    many = int(float(os.environ.get("MILLIONS", "1")) * 1_000_000)
    async with AsyncExitStack() as open_sites:
        sites = [
            await open_sites.enter_async_context(_Opening(ground, *shape))
            for shape in (
                ("1 partition", FEW, 1, 1),
                ("12 partitions", FEW, 12, 1),
                ("36 partitions", FEW, 36, 1),
                (f"{many:,} rows, 1 partition", many, 1, 1),
                (f"{many:,} rows, 4 partitions of events, 8 of deliveries", many, 4, 2),
            )
        ]
        for site in sites:
            size = await site.database.pool.fetchval("select pg_database_size(current_database())")
            say(f"{site.name}: 3 x {site.rows:,} rows, {size / 1e9:.2f} GB")
        book = Book()
        for _ in track(range(ROUNDS), "rounds", transient=True):
            for site in sites:
                await _round(site, book)
    return [row for name in book.used for row in book.rows(name, [site.name for site in sites])]


@dataclass
class Book:
    """For each operation and site, what each round took: processor time of the database, and time until the answer."""

    used: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    waited: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    async def time(self, site: Site, name: str, work: Awaitable[None], times: int) -> None:
        used, began = site.used(), time.perf_counter()
        await work
        self._note(self.waited, name, site, (time.perf_counter() - began) * 1e6 / times)
        self._note(self.used, name, site, (site.used() - used) / 1e3 / times)

    def rows(self, name: str, sites: Sequence[str]) -> list[Row]:
        say(f"{name}: waited " + ", ".join(f"{median(self.waited[name][one]):,.0f} µs" for one in sites))
        values = {one: median(self.used[name][one]) for one in sites}
        least = values[sites[0]]
        return [Row(f"{name}: {one}", value, "µs CPU", least, value / least) for one, value in values.items()]

    @staticmethod
    def _note(found: dict[str, dict[str, list[float]]], name: str, site: Site, value: float) -> None:
        found.setdefault(name, {}).setdefault(site.name, []).append(value)


async def _round(site: Site, book: Book) -> None:
    async def repeat(work: Callable[[Site], Awaitable[None]]) -> None:
        for _ in range(TIMES):
            await work(site)

    for name, work in SINGLE.items():
        await book.time(site, name, repeat(work), TIMES)
    for amount in (1, TIMES):
        kind = "alone" if amount == 1 else f"of {amount} at once"
        for _ in range(5 if amount == 1 else 1):
            await book.time(site, f"a purchase, {kind}", purchases(site, amount), amount)
            # The first events of all lanes, then the second ones.
            for _ in range(2):
                claims: list[lanes.Claim] = []
                await book.time(site, f"a delivery claimed, {kind}", claim(site, claims, amount), amount)
                await book.time(site, f"a delivery recorded, {kind}", record(site, claims), amount)


class _Opening:
    """A database of its own with this many rows; one connection, so that one process does everything."""

    def __init__(self, ground: Ground, name: str, rows: int, partitions: int, parts_each: int) -> None:
        self._ground = ground
        self._shape = name, rows, partitions, parts_each

    async def __aenter__(self) -> Site:
        name, rows, partitions, parts_each = self._shape
        own = f"big_{rows}_{partitions}_{parts_each}"
        await self._ground.database.pool.execute(f"create database {own}")
        url = self._ground.server.url(own)
        connection = await connect(url)
        await migrate(connection)
        await connection.close()
        self._database = database = Database(url, max_size=1, statement_timeout_ms=0)
        await database.open()
        await ensure_demo(database, real_now(), secret_key=None, public_key=None)
        hooks = Registry(database, Sealer(self._ground.secret))
        hook = await hooks.add(PROJECT_ID, Setup(url="https://93.184.216.34/", name="big"), real_now())
        numbers = [block * PARTS_OF_EVENTS + n for block in range(partitions) for n in range(parts_each)]
        for number in numbers[1:]:
            await parts.open_part(database, number, real_now())
        customers = await fill(database, PROJECT_ID, hook.key, rows, numbers)
        process = await database.pool.fetchval("select pg_backend_pid()")
        return Site(name, rows, partitions, parts_each, database, process, hook.key, customers, numbers[-1])

    async def __aexit__(self, *_: object) -> None:
        await self._database.close()
