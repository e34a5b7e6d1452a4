"""The clock role: watches time pass for everybody who is not on a test clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from latchkey.domain.instants import MINUTE, SECOND, Ms
from latchkey.storage import customers
from latchkey.storage.catalogs import Catalogs
from latchkey.storage.database import Database
from latchkey.usecases.changes import COLLISIONS, load_projects
from latchkey.usecases.passing_time import steps
from latchkey.usecases.unit_of_work import UnitOfWork

# Enough customers to make a round trip worth while, few enough that nobody waits long for a locked row.
AT_ONCE = 500
# A purchase may fall due sooner than all that was known when we lay down to wait.
LONGEST_WAIT: Ms = 1 * SECOND
POSTPONED_FOR: Ms = 5 * MINUTE

log = structlog.get_logger("latchkey.clock")


async def run_clock(db: Database, now: Callable[[], Ms], stop: asyncio.Event) -> None:
    """Until told to stop. Any number of these may run: each takes customers that no other is busy with."""
    catalogs = Catalogs()
    while not stop.is_set():
        try:
            changed = await pass_time(db, catalogs, now())
            wait = 0 if changed == AT_ONCE else await _until_next(db, now())
        except COLLISIONS:
            continue
        except Exception:
            # The database is away, or one customer cannot be understood: say so and keep watching for the others.
            log.exception("clock.failed")
            wait = LONGEST_WAIT
        if wait:
            try:
                await asyncio.wait_for(stop.wait(), wait / 1000)
            except TimeoutError:
                continue


async def pass_time(db: Database, catalogs: Catalogs, now: Ms, limit: int = AT_ONCE) -> int:
    """What has fallen due by `now`, for up to `limit` customers; how many there were."""
    async with db.transaction() as connection:
        due = await customers.due(connection, now, limit)
        if not due:
            return 0
        projects = await load_projects(connection, catalogs, {one.customer.project_id for one in due})
        unit = UnitOfWork(connection, now)
        for stored in due:
            catalog = projects[stored.customer.project_id].catalog
            try:
                fallen_due = list(steps(stored.customer, catalog, now))
            except Exception:
                # One customer that the rules cannot carry on must not stop time for everybody else.
                log.exception("clock.customer_postponed", project_id=stored.customer.project_id, customer=stored.key)
                await customers.postpone(connection, stored, now + POSTPONED_FOR)
                continue
            for step in fallen_due:
                unit.record(stored, step, catalog)
        await unit.commit()
    return len(due)


async def _until_next(db: Database, now: Ms) -> Ms:
    async with db.acquire() as connection:
        due = await customers.next_due(connection)
    return LONGEST_WAIT if due is None else min(max(due - now, 1), LONGEST_WAIT)
