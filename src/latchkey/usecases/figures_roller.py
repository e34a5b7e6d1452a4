"""The roller: follows each project's feed and keeps the figures' books up with it.

A batch is one transaction: the lines of the customers it saw, the sums of the days, and the place in the feed. Killed
at any point it leaves all of it or nothing. Lines are made from the customers as they are, not from the events: a batch
done twice, or late, changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import structlog

from latchkey.domain.catalog import Catalog
from latchkey.domain.customer import Customer
from latchkey.domain.figures_lines import Line, PurchaseKey, contributions
from latchkey.domain.instants import Ms
from latchkey.storage.catalogs import Catalogs
from latchkey.storage.customers import decode
from latchkey.storage.database import Database
from latchkey.storage.sql import query
from latchkey.usecases import figures_books
from latchkey.usecases.changes import load_projects
from latchkey.usecases.figures_newcomers import Count, carry_on

_BEHIND = query("figures_behind")
_START = query("start_figures")
_TAKE = query("take_figures")
_AWAIT = query("await_figures")
_NEXT_EVENTS = query("figures_next_events")
_TAKE_MARKS = query("take_figure_marks")
_CUSTOMERS = query("figures_customers")
_SAVE = query("save_figures")

# Events in one transaction: enough to make the round trips worth while, few enough to be done in a tenth of a second.
AT_ONCE = 500
_IDLE = 1.0
# Between two batches of a long way: purchases come first.
_BREATH = 0.02

log = structlog.get_logger("latchkey.figures")


async def run_roller(db: Database, now: Callable[[], Ms], stop: asyncio.Event) -> None:
    """Until told to stop. Any number of these may run: each takes projects that no other is busy with."""
    catalogs = Catalogs()
    while not stop.is_set():
        try:
            wait = _BREATH if await roll_all(db, catalogs, now()) else _IDLE
        except Exception:
            # The database is away: figures wait, nobody else does.
            log.exception("figures.failed")
            wait = _IDLE
        try:
            await asyncio.wait_for(stop.wait(), wait)
        except TimeoutError:
            continue


async def roll_all(db: Database, catalogs: Catalogs, now: Ms) -> bool:
    """A batch of every project that has news; whether any has more."""
    async with db.acquire() as connection:
        behind = [row["project_id"] for row in await connection.fetch(_BEHIND)]
    more = False
    for project_id in behind:
        more = await roll(db, catalogs, project_id, now) or more
    return more


async def roll(db: Database, catalogs: Catalogs, project_id: str, now: Ms, *, wait: bool = False) -> bool:
    """One batch of a project; whether there is more to do at once. Without `wait`, a project that another process is
    busy with is left to it."""
    async with db.transaction() as connection:
        row = await _hold(connection, project_id, wait=wait)
        if row is None:
            return False
        events = await connection.fetch(_NEXT_EVENTS, project_id, row["position"], AT_ONCE)
        marks = await connection.fetch(_TAKE_MARKS, project_id, AT_ONCE)
        touched = {one["customer_id"] for one in (*events, *marks)}
        if touched:
            catalog = (await load_projects(connection, catalogs, {project_id}))[project_id].catalog
            found = await connection.fetch(_CUSTOMERS, project_id, sorted(touched))
            await figures_books.write(connection, project_id, _contributed(found, catalog))
        count = Count(row["counted"], row["mark_id"], row["mark_xid"], row["marked_at"])
        counted, uncounted = await carry_on(connection, project_id, count, row["oldest_xid"], now)
        if touched or counted != count:
            await connection.execute(
                _SAVE,
                project_id,
                events[-1]["position"] if events else row["position"],
                events[-1]["committed_at"] if events else row["rolled_to"],
                counted.counted,
                counted.mark_id,
                counted.mark_xid,
                counted.marked_at,
            )
    return uncounted or AT_ONCE in (len(events), len(marks))


async def settle(connection: Any, project_id: str, customer: Customer, catalog: Catalog) -> None:
    """The last word on a customer who is about to be erased: what was sold stays in the books."""
    await _hold(connection, project_id, wait=True)
    await figures_books.write(connection, project_id, contributions(customer, catalog))


async def _hold(connection: Any, project_id: str, *, wait: bool) -> Any:
    take = _AWAIT if wait else _TAKE
    row = await connection.fetchrow(take, project_id)
    if row is None:
        await connection.execute(_START, project_id)
        row = await connection.fetchrow(take, project_id)
    return row


def _contributed(found: Iterable[Any], catalog: Catalog) -> dict[PurchaseKey, tuple[Line, ...]]:
    contributed: dict[PurchaseKey, tuple[Line, ...]] = {}
    for row in found:
        try:
            contributed |= contributions(decode(row["state"]), catalog)
        except Exception:
            # One customer that cannot be understood must not stop the figures of everybody else.
            log.exception("figures.customer_left_out", customer=row["id"])
    return contributed
