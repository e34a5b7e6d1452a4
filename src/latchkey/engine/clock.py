"""The clock role, which applies what falls due for customers who are not on a test clock; and scans of all customers of
a project, a little at a time, for questions that no index can answer.

A walk has a time limit. It returns how far it came, and the next walk continues there: a page shows a growing number
instead of waiting for a hundred thousand customers.
"""

import time
from collections.abc import Callable, Sequence

import structlog
from msgspec import Struct
from msgspec.structs import replace

from latchkey.database import transient_errors
from latchkey.database.errors import CollisionError
from latchkey.database.pool import Database
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import MINUTE, SECOND, Ms
from latchkey.engine.due_transitions import steps
from latchkey.engine.due_work import Lookout, in_turns
from latchkey.engine.storage import records, scans
from latchkey.engine.storage.catalog.catalogs import Catalogs
from latchkey.engine.storage.read_rows import load_projects
from latchkey.engine.unit_of_work import UnitOfWork, passes_until, unheard

# How long one page may scan. Together with its other work a page stays under its 200 ms.
SECONDS = 0.08
# Customers per step. Other requests are served between two steps, so they wait about 10 ms at most.
AT_ONCE_WALK = 500


class ScanProgress(Struct, frozen=True):
    """How far a walk has come."""

    # The key of the last customer that was examined, and how many were.
    after: int = 0
    passed: int = 0
    # The key of the project's last customer. Keys have gaps, so the share is an estimate.
    last: int = 0
    done: bool = False

    @property
    def share(self) -> float:
        return 1.0 if self.done or not self.last else min(self.after / self.last, 1.0)


async def walk(
    database: Database,
    project_id: str,
    words: Sequence[str],
    look: Callable[[Customer, Ms], None],
    now: Ms,
    place: ScanProgress,
    seconds: float | None = None,
) -> ScanProgress:
    """Calls `look` with every customer whose state contains one of the words, and with the customer's current time."""
    until = time.monotonic() + (SECONDS if seconds is None else seconds)
    async with database.acquire() as connection:
        while True:
            stretch = await scans.next_stretch(connection, project_id, place.after, AT_ONCE_WALK)
            if stretch is None:
                return replace(place, done=True)
            for customer, clock_now in await scans.mentioning(connection, project_id, place.after, stretch, words):
                look(customer, clock_now if clock_now is not None else now)
            ended = stretch.customers < AT_ONCE_WALK
            place = ScanProgress(stretch.ends_at, place.passed + stretch.customers, stretch.last, ended)
            if ended or time.monotonic() >= until:
                return place


# Customers per transaction: enough to be worth the round trips, few enough that nobody waits long for a lock.
AT_ONCE_CLOCK = 500
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
            within = 0 if passed == AT_ONCE_CLOCK else APART / SECOND
        except CollisionError:
            within = 0
        except Exception:
            # The database may be unreachable, or one customer cannot be decoded. Log it and continue.
            log.exception("clock failed")
            within = None


async def pass_time(database: Database, catalogs: Catalogs, now: Ms, limit: int = AT_ONCE_CLOCK) -> int:
    """Applies what is due by `now`, for up to `limit` customers. Returns how many there were."""
    async with transient_errors.hot_transaction(database) as connection:
        due = await records.due(connection, now, limit)
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
                await records.postpone(connection, stored, now + POSTPONED_FOR)
                continue
            if not fallen_due:
                # Its store is asked first; what the store says makes it due again.
                await records.postpone(connection, stored, now + ASKED_WITHIN)
            for step in fallen_due:
                unit.record(stored, step, catalog)
        await unit.commit(connection)
    return len(due)
