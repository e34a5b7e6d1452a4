"""The roller: follows each project's feed and keeps the figures up to date.

A batch is one transaction: the lines of the customers that its events name, the sums by day, and the positions in the
feeds, of several projects at once. If a roller is killed, its whole batch is rolled back. Lines are computed from the
customers as they are now, not from the events, so processing a batch twice or late is harmless.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog
from msgspec import Struct

from latchkey.domain.catalog import Catalog
from latchkey.domain.charts.facts.segments import PurchaseKey
from latchkey.domain.customers.customer import Customer
from latchkey.domain.figures.lines import Line, contributions
from latchkey.domain.instants import MINUTE, Ms
from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.storage.customers.state_format import decode
from latchkey.storage.database import Connection, Database
from latchkey.storage.figures import newcomers, progress
from latchkey.storage.figures.newcomers import Count, Stretch
from latchkey.storage.figures.progress import Batch, Roll
from latchkey.storage.passing import PASSING
from latchkey.usecases.figures import books
from latchkey.usecases.figures.newcomers import AT_ONCE as NEWCOMERS_AT_ONCE
from latchkey.usecases.figures.newcomers import MOMENT, after_counting, next_step

# Events per transaction: enough to be worth the round trips, few enough to take a tenth of a second.
AT_ONCE = 500
# Projects per transaction.
PROJECTS = 50
# Seconds between two looks at whether anything is behind. With the batch that follows, figures are a second late at
# most.
_LOOK = 0.9
# Seconds between two batches while there is more to do, so that purchases are not delayed.
_BREATH = 0.02
# Newcomers are looked for when a customer got a new key, and this often in any case: a key may become visible late.
_NEWCOMERS_EVERY: Ms = 1 * MINUTE

log = structlog.get_logger("latchkey.figures")


async def run_roller(database: Database, now: Callable[[], Ms], stop: asyncio.Event) -> None:
    """Runs until `stop` is set. Several may run at once: each skips projects that another has locked."""
    roller = Roller(database)
    while not stop.is_set():
        try:
            wait = await roller.turn(now())
        except Exception:
            # The database may be unreachable. The figures are then late; nothing else depends on them.
            log.exception("figures failed")
            wait = _LOOK
        try:
            await asyncio.wait_for(stop.wait(), wait)
        except TimeoutError:
            continue


class Rolled(Struct, frozen=True):
    # There is more to do at once.
    more: bool
    # Some customers are not counted yet.
    uncounted: bool


class Roller:
    """Decides when to roll. While nothing happens a turn is one short statement."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._catalogs = Catalogs()
        # When newcomers were last looked for, the last customer's key then, and whether some were left to count.
        self._looked_at: Ms | None = None
        self._newest = 0
        self._uncounted = False

    async def turn(self, now: Ms) -> float:
        """Rolls what is behind. Returns how many seconds to wait before the next turn."""
        async with self._database.acquire() as connection:
            outlook = await progress.look(connection)
            if outlook.unstarted:
                await progress.start(connection)
        counting = self._counting(outlook.newest, now)
        if not (outlook.behind or outlook.unstarted or counting):
            return _LOOK
        rolled = await roll_all(self._database, self._catalogs, now, newcomers=counting)
        if counting:
            self._looked_at, self._newest, self._uncounted = now, outlook.newest, rolled.uncounted
        return _BREATH if rolled.more else _LOOK

    def _counting(self, newest: int, now: Ms) -> bool:
        if self._looked_at is None:
            return True
        waited = abs(now - self._looked_at)
        return waited >= (MOMENT if self._uncounted or newest != self._newest else _NEWCOMERS_EVERY)


async def roll_all(database: Database, catalogs: Catalogs, now: Ms, *, newcomers: bool = True) -> Rolled:
    """One batch of every project that is behind; with `newcomers` also of those that have customers to count."""
    after, more, uncounted = "", False, False
    while True:
        held: list[Roll] = []
        try:
            async with database.transaction() as connection:
                held = await progress.take_behind(
                    connection, after, PROJECTS, newcomers=newcomers, now=now, moment=MOMENT
                )
                rolled = await _roll(connection, catalogs, held, now)
        except PASSING:
            raise
        except Exception:
            if not held:
                raise
            # One project on which the rules fail must not stop the others.
            rolled = await _one_by_one(database, catalogs, held, now)
        more, uncounted = more or rolled.more, uncounted or rolled.uncounted
        if len(held) < PROJECTS:
            return Rolled(more, uncounted)
        after = held[-1].project_id


async def roll(database: Database, catalogs: Catalogs, project_id: str, now: Ms, *, wait: bool = False) -> bool:
    """One batch of a project. Returns whether there is more to do at once. Without `wait`, a project that another
    process has locked is skipped."""
    return (await _roll_one(database, catalogs, project_id, now, wait=wait)).more


async def settle(connection: Connection, project_id: str, customer: Customer, catalog: Catalog) -> None:
    """Writes the lines of a customer who is about to be erased: the sales stay in the figures."""
    await progress.hold(connection, project_id, wait=True)
    await books.write(connection, {project_id: contributions(customer, catalog)})


async def _roll_one(database: Database, catalogs: Catalogs, project_id: str, now: Ms, *, wait: bool = False) -> Rolled:
    async with database.transaction() as connection:
        held = await progress.hold(connection, project_id, wait=wait)
        return await _roll(connection, catalogs, [] if held is None else [held], now)


async def _one_by_one(database: Database, catalogs: Catalogs, held: Sequence[Roll], now: Ms) -> Rolled:
    more = uncounted = False
    for one in held:
        try:
            rolled = await _roll_one(database, catalogs, one.project_id, now)
        except PASSING:
            raise
        except Exception:
            log.exception("figures of a project failed", project_id=one.project_id)
        else:
            more, uncounted = more or rolled.more, uncounted or rolled.uncounted
    return Rolled(more, uncounted)


async def _roll(connection: Connection, catalogs: Catalogs, held: Sequence[Roll], now: Ms) -> Rolled:
    """One batch of these projects, which the transaction has locked."""
    if not held:
        return Rolled(more=False, uncounted=False)
    limit = max(1, AT_ONCE // len(held))
    batches = await progress.next_batches(connection, held, limit)
    contributed: dict[str, dict[PurchaseKey, tuple[Line, ...]]] = {}
    for batch in batches:
        if batch.customers:
            catalog = await catalogs.priced(connection, batch.project_id, batch.catalog_version, batch.rates_version)
            contributed[batch.project_id] = _contributed(batch, catalog)
    counts, again = await _count(connection, held, batches, now)
    known = {one.project_id: one for one in held}
    rolled: list[Roll] = []
    for batch in batches:
        before = known[batch.project_id]
        rolled.append(
            Roll(
                project_id=batch.project_id,
                position=before.position if batch.position is None else batch.position,
                rolled_to=before.rolled_to if batch.committed_at is None else batch.committed_at,
                count=counts[batch.project_id],
            )
        )
    await books.write(connection, contributed, [one for one in rolled if one != known[one.project_id]])
    return Rolled(
        more=again or any(limit in (one.events, one.marks) for one in batches),
        uncounted=any(one.mark_id is not None for one in counts.values()),
    )


async def _count(
    connection: Connection, held: Sequence[Roll], batches: Sequence[Batch], now: Ms
) -> tuple[dict[str, Count], bool]:
    """The next step of counting the newcomers of each project, and whether there is another one to take at once."""
    before = {one.project_id: one.count for one in held}
    counts: dict[str, Count] = {}
    ready: list[Stretch] = []
    for batch in batches:
        count, can_be_counted = next_step(before[batch.project_id], batch.seen, now)
        counts[batch.project_id] = count
        if can_be_counted and count.mark_id is not None:
            ready.append(Stretch(batch.project_id, count.counted, count.mark_id))
    if not ready:
        return counts, False
    counted = await newcomers.count(connection, ready, NEWCOMERS_AT_ONCE)
    seen = {one.project_id: one.seen for one in batches}
    again = False
    for one in ready:
        id = one.project_id
        counts[id], more = after_counting(counts[id], counted.get(id), seen[id], now)
        again = again or more
    return counts, again


def _contributed(batch: Batch, catalog: Catalog) -> dict[PurchaseKey, tuple[Line, ...]]:
    contributed: dict[PurchaseKey, tuple[Line, ...]] = {}
    for key, state in batch.customers:
        try:
            contributed |= contributions(decode(state), catalog)
        except Exception:
            # One customer that cannot be decoded must not stop the figures of all others.
            log.exception("customer left out of figures", customer=key)
    return contributed
