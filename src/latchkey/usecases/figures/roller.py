"""The roller: follows each project's feed and keeps the figures up to date.

A batch is one transaction: the lines of the customers that its events name, the sums by day, and the position in the
feed. If a roller is killed, its whole batch is rolled back. Lines are computed from the customers as they are now, not
from the events, so processing a batch twice or late is harmless.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import structlog

from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.customer import Customer
from latchkey.domain.figures.lines import Line, PurchaseKey, contributions
from latchkey.domain.instants import Ms
from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.storage.customers.state_format import decode
from latchkey.storage.database import Connection, Database
from latchkey.storage.figures import progress
from latchkey.storage.figures.progress import RolledCustomer
from latchkey.usecases.engine.changes import load_projects
from latchkey.usecases.figures import books as figures_books
from latchkey.usecases.figures.newcomers import carry_on

# Events per transaction: enough to be worth the round trips, few enough to take a tenth of a second.
AT_ONCE = 500
_IDLE = 1.0
# Seconds between two batches while there is more to do, so that purchases are not delayed.
_BREATH = 0.02

log = structlog.get_logger("latchkey.figures")


async def run_roller(database: Database, now: Callable[[], Ms], stop: asyncio.Event) -> None:
    """Runs until `stop` is set. Several may run at once: each skips projects that another has locked."""
    catalogs = Catalogs()
    while not stop.is_set():
        try:
            wait = _BREATH if await roll_all(database, catalogs, now()) else _IDLE
        except Exception:
            # The database may be unreachable. The figures are then late; nothing else depends on them.
            log.exception("figures failed")
            wait = _IDLE
        try:
            await asyncio.wait_for(stop.wait(), wait)
        except TimeoutError:
            continue


async def roll_all(database: Database, catalogs: Catalogs, now: Ms) -> bool:
    """One batch of every project that is behind. Returns whether any has more to do."""
    async with database.acquire() as connection:
        behind = await progress.projects_behind(connection)
    more = False
    for project_id in behind:
        more = await roll(database, catalogs, project_id, now) or more
    return more


async def roll(database: Database, catalogs: Catalogs, project_id: str, now: Ms, *, wait: bool = False) -> bool:
    """One batch of a project. Returns whether there is more to do at once. Without `wait`, a project that another
    process has locked is skipped."""
    async with database.transaction() as connection:
        held = await progress.hold(connection, project_id, wait=wait)
        if held is None:
            return False
        events = await progress.next_events(connection, project_id, held.position, AT_ONCE)
        marks = await progress.take_marks(connection, project_id, AT_ONCE)
        touched = {one.customer_key for one in events}.union(marks)
        if touched:
            catalog = (await load_projects(connection, catalogs, {project_id}))[project_id].catalog
            found = await progress.customers(connection, project_id, touched)
            await figures_books.write(connection, project_id, _contributed(found, catalog))
        count, uncounted = await carry_on(connection, project_id, held.count, held.oldest_xid, now)
        if touched or count != held.count:
            position = events[-1].position if events else held.position
            rolled_to = events[-1].committed_at if events else held.rolled_to
            await progress.save(connection, project_id, position, rolled_to, count)
    return uncounted or AT_ONCE in (len(events), len(marks))


async def settle(connection: Connection, project_id: str, customer: Customer, catalog: Catalog) -> None:
    """Writes the lines of a customer who is about to be erased: the sales stay in the figures."""
    await progress.hold(connection, project_id, wait=True)
    await figures_books.write(connection, project_id, contributions(customer, catalog))


def _contributed(found: Iterable[RolledCustomer], catalog: Catalog) -> dict[PurchaseKey, tuple[Line, ...]]:
    contributed: dict[PurchaseKey, tuple[Line, ...]] = {}
    for one in found:
        try:
            contributed |= contributions(decode(one.state), catalog)
        except Exception:
            # One customer that cannot be decoded must not stop the figures of all others.
            log.exception("customer left out of figures", customer=one.key)
    return contributed
