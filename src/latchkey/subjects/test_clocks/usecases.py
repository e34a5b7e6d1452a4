"""Test clocks: an operator moves the time of the customers on a clock. Every transition gets its own instant. The
dashboard lists them with their customers and what falls due next."""

from collections.abc import Mapping

from msgspec import Struct

from latchkey.database.pool import Database
from latchkey.domain.customers.customer import Customer, set_now
from latchkey.domain.formats import instant
from latchkey.domain.instants import LATEST, Duration, Ms, add
from latchkey.domain.refusal import Conflict, InUse, Refusal
from latchkey.engine.changes import Changes, Committed
from latchkey.engine.storage import records
from latchkey.engine.storage.read_rows import load_projects
from latchkey.engine.storage.writes import Save, save
from latchkey.engine.unit_of_work import UnitOfWork, newcomer
from latchkey.subjects.test_clocks import storage
from latchkey.subjects.test_clocks.rules import Inhabitant, TestClock
from latchkey.wire.event import Event

# Customers changed in one transaction while a clock moves.
_AT_ONCE = 500


async def create_clock(database: Database, project_id: str, id: str, name: str, now: Ms, created_at: Ms) -> TestClock:
    clock = TestClock(id, name, now, created_at)
    await storage.create(database, project_id, clock)
    return clock


get_clock = storage.CLOCKS.get
list_clocks = storage.CLOCKS.load_page
find_clock = storage.CLOCKS.find
newest_clocks = storage.newest


async def delete_clock(database: Database, project_id: str, id: str) -> None:
    async with database.transaction() as connection:
        if await storage.move(connection, project_id, id, None) is None:
            raise storage.CLOCKS.missing(id)
        if await storage.is_used(connection, project_id, id):
            raise InUse("There are customers on this test clock; delete them first.")
        await storage.delete(connection, project_id, id)


async def create_customer(
    changes: Changes,
    project_id: str,
    app_user_id: str,
    test_clock_id: str | None = None,
    attributes: Mapping[str, str | None] | None = None,
) -> Committed:
    """A new customer, on a test clock if one is named, with these attributes."""
    wall = changes.now()
    async with changes.database.transaction() as connection:
        project = (await load_projects(connection, changes.catalogs, {project_id}))[project_id]
        now = wall
        if test_clock_id is not None:
            clock_now = await storage.share(connection, project_id, test_clock_id)
            if clock_now is None:
                raise storage.CLOCKS.missing(test_clock_id)
            now = clock_now
        customer: Customer = newcomer(project_id, app_user_id, now, test_clock_id)
        made = await records.create(connection, [customer])
        if not made:
            raise Conflict(f"There is a customer {app_user_id!r} already.", param="id")
        if attributes:
            # Attributes have the time of the wall clock, as everywhere.
            customer = set_now(customer, attributes, wall)
            await save(connection, [Save(made[project_id, app_user_id], customer, None)], wall)
    return Committed(customer, project.catalog, now, created=True)


class Advanced(Struct, frozen=True):
    clock: TestClock
    events: int


async def advance(
    changes: Changes, project_id: str, id: str, *, by: Duration | None = None, to: Ms | None = None
) -> Advanced:
    """Move a clock forward. Returns when everything that fell due on the way is committed."""
    clock = await get_clock(changes.database, project_id, id)
    target = to if to is not None else _later(clock.now, by or Duration())
    if target is not None and target < clock.now:
        raise Refusal(f"The clock is at {instant(clock.now, seconds=True)}; it only moves forward.", param="to_ms")
    if target is None or target > LATEST:
        raise Refusal("The clock cannot go beyond the year 2199.", param="by" if by else "to_ms")
    told = 0
    while True:
        events, arrived = await _step(changes, project_id, id, target)
        told += len(events)
        if arrived:
            return Advanced(await get_clock(changes.database, project_id, id), told)


def _later(now: Ms, by: Duration) -> Ms | None:
    """None if the result is after the last date of the calendar."""
    try:
        return add(now, by)
    except (ValueError, OverflowError):
        return None


async def _step(changes: Changes, project_id: str, id: str, target: Ms) -> tuple[list[Event], bool]:
    """One batch of customers who are due at the next instant, and whether the clock has reached its target."""
    async with changes.database.transaction() as connection:
        now = await storage.move(connection, project_id, id, None)
        if now is None:
            raise storage.CLOCKS.missing(id)
        instant = await storage.next_due(connection, project_id, id, target)
        if instant is None:
            await storage.move(connection, project_id, id, max(now, target))
            return [], True
        instant = max(instant, now)
        catalog = (await load_projects(connection, changes.catalogs, {project_id}))[project_id].catalog
        unit = UnitOfWork(changes.now())
        for stored in await storage.lock_due(connection, project_id, id, instant, _AT_ONCE):
            unit.catch_up(stored, catalog, instant)
        told = await unit.commit(connection)
        await storage.move(connection, project_id, id, instant)
        return told.get(0, []), False


# How many customers of a clock a page shows.
SHOWN = 100


async def inhabitants(database: Database, project_id: str, clock_id: str) -> list[Inhabitant]:
    """The customers who fall due first. One more than `SHOWN` means that there are more."""
    return await storage.inhabitants(database, project_id, clock_id, SHOWN + 1)


async def next_due(database: Database, project_id: str, clock_id: str) -> Ms:
    instant = await storage.next_due(database, project_id, clock_id, LATEST)
    if instant is None:
        raise Refusal("No customer on this clock has anything due. Buy a subscription first.")
    return instant
