"""The clock role: applies what falls due for customers who are not on a test clock."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from latchkey.domain.instants import MINUTE, SECOND, Ms
from latchkey.storage import collisions
from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.storage.customers import records as customers
from latchkey.storage.database import Database
from latchkey.storage.errors import CollisionError
from latchkey.usecases.engine.changes import load_projects
from latchkey.usecases.engine.lookout import Lookout
from latchkey.usecases.engine.passing_time import steps
from latchkey.usecases.engine.silence import passes_until, unheard
from latchkey.usecases.engine.unit_of_work import UnitOfWork
from latchkey.usecases.rolling.turns import in_turns

# Customers per transaction: enough to be worth the round trips, few enough that nobody waits long for a lock.
AT_ONCE = 500
# Between two transactions, unless there is more to do at once: what falls due meanwhile is applied together.
APART: Ms = 250
POSTPONED_FOR: Ms = 5 * MINUTE
# When to look again at a subscription whose store is to be asked first.
ASKED_WITHIN: Ms = 5 * MINUTE

log = structlog.get_logger()


async def run_clock(lookout: Lookout, database: Database, now: Callable[[], Ms]) -> None:
    """Runs until the lookout ends. Several may run at once: each skips customers that another has locked."""
    catalogs = Catalogs()
    within: float | None = None
    while await lookout.until(lambda seen: seen.customer_at, within=within) is not None:
        try:
            passed = await pass_time(database, catalogs, now())
            within = 0 if passed == AT_ONCE else APART / SECOND
        except CollisionError:
            within = 0
        except Exception:
            # The database may be unreachable, or one customer cannot be decoded. Log it and continue.
            log.exception("clock failed")
            within = None


async def pass_time(database: Database, catalogs: Catalogs, now: Ms, limit: int = AT_ONCE) -> int:
    """Applies what is due by `now`, for up to `limit` customers. Returns how many there were."""
    async with collisions.transaction(database) as connection:
        due = await customers.due(connection, now, limit)
        if not due:
            return 0
        projects = await load_projects(connection, catalogs, {one.customer.project_id for one in due})
        unit = UnitOfWork(now)
        silent = await unheard(connection, (one.customer for one in due), now)
        async for stored in in_turns(due):
            catalog = projects[stored.customer.project_id].catalog
            try:
                fallen_due = list(steps(stored.customer, catalog, passes_until(stored.customer, silent, now)))
            except Exception:
                # One customer on which the rules fail must not stop the others.
                log.exception("customer postponed", project_id=stored.customer.project_id, customer=stored.key)
                await customers.postpone(connection, stored, now + POSTPONED_FOR)
                continue
            if not fallen_due:
                # Its store is asked first; what the store says makes it due again.
                await customers.postpone(connection, stored, now + ASKED_WITHIN)
            for step in fallen_due:
                unit.record(stored, step, catalog)
        await unit.commit(connection)
    return len(due)
