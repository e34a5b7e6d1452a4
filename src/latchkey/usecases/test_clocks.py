"""Test clocks: customers whose time one can move. Every transition that falls due happens at its own instant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from latchkey.domain.customer import Customer, newcomer
from latchkey.domain.instants import LATEST, Duration, Ms, add, to_iso
from latchkey.domain.refusal import Conflict, InUse, NotFound, Refusal
from latchkey.storage import customers
from latchkey.storage.customers import Stored, decode
from latchkey.storage.database import Database
from latchkey.storage.sql import query
from latchkey.usecases.changes import Changes, Committed, load_projects
from latchkey.usecases.unit_of_work import UnitOfWork
from latchkey.wire.event import Event

_CREATE = query("create_clock")
_BY_ID = query("clock_by_id")
_LIST = query("clocks_of_project")
_SHARE = query("share_clock")
_HOLD = query("hold_clock")
_MOVE = query("move_clock")
_NEXT_DUE = query("next_due_on_clock")
_DUE = query("customers_due_on_clock")
_DELETE = query("delete_clock")
_IS_USED = query("clock_is_used")

# Customers that change in one transaction while a clock moves.
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class TestClock:
    __test__ = False  # its name begins like a test's

    id: str
    name: str
    now: Ms
    created_at: Ms


async def create_clock(db: Database, project_id: str, id: str, name: str, now: Ms, created_at: Ms) -> TestClock:
    async with db.acquire() as connection:
        await connection.execute(_CREATE, project_id, id, name, now, created_at)
    return TestClock(id, name, now, created_at)


async def get_clock(db: Database, project_id: str, id: str) -> TestClock:
    async with db.acquire() as connection:
        row = await connection.fetchrow(_BY_ID, project_id, id)
    if row is None:
        raise _unknown(id)
    return _clock(row)


async def list_clocks(db: Database, project_id: str, after: str | None, limit: int) -> list[TestClock]:
    async with db.acquire() as connection:
        if after is not None and await connection.fetchrow(_BY_ID, project_id, after) is None:
            raise NotFound(f"There is no test clock {after!r} to start after.", param="starting_after")
        return [_clock(row) for row in await connection.fetch(_LIST, project_id, after, limit)]


async def delete_clock(db: Database, project_id: str, id: str) -> None:
    async with db.transaction() as connection:
        if await connection.fetchval(_HOLD, project_id, id) is None:
            raise _unknown(id)
        if await connection.fetchval(_IS_USED, project_id, id):
            raise InUse("Customers live on this test clock; delete them first.")
        await connection.execute(_DELETE, project_id, id)


async def create_customer(
    changes: Changes, project_id: str, app_user_id: str, test_clock_id: str | None = None
) -> Committed:
    """A customer that does not exist yet, where asked on a test clock."""
    wall = changes.now()
    async with changes.db.transaction() as connection:
        project = (await load_projects(connection, changes.catalogs, {project_id}))[project_id]
        now = wall
        if test_clock_id is not None:
            now = await connection.fetchval(_SHARE, project_id, test_clock_id)
            if now is None:
                raise _unknown(test_clock_id)
        customer: Customer = newcomer(project_id, app_user_id, now, test_clock_id)
        if not await customers.create(connection, [customer]):
            raise Conflict(f"There is a customer {app_user_id!r} already.", param="id")
    return Committed(customer, project.catalog, now, created=True)


@dataclass(frozen=True, slots=True)
class Advanced:
    clock: TestClock
    events: int


async def advance(
    changes: Changes, project_id: str, id: str, *, by: Duration | None = None, to: Ms | None = None
) -> Advanced:
    """Move a clock forward. Returns when everything that fell due on the way is committed."""
    clock = await get_clock(changes.db, project_id, id)
    target = to if to is not None else _later(clock.now, by or Duration())
    if target is not None and target < clock.now:
        raise Refusal(f"The clock stands at {to_iso(clock.now)}; time only moves forward.", param="to_ms")
    if target is None or target > LATEST:
        raise Refusal("The clock would leave the year 2199.", param="by" if by else "to_ms")
    told = 0
    while True:
        events, arrived = await _step(changes, project_id, id, target)
        told += len(events)
        if arrived:
            return Advanced(await get_clock(changes.db, project_id, id), told)


def _later(now: Ms, by: Duration) -> Ms | None:
    """None where the calendar ends before."""
    try:
        return add(now, by)
    except (ValueError, OverflowError):
        return None


async def _step(changes: Changes, project_id: str, id: str, target: Ms) -> tuple[list[Event], bool]:
    """What falls due next, at one instant, for up to a few hundred customers; and whether the clock has arrived."""
    async with changes.db.transaction() as connection:
        now = await connection.fetchval(_HOLD, project_id, id)
        if now is None:
            raise _unknown(id)
        instant = await connection.fetchval(_NEXT_DUE, project_id, id, target)
        if instant is None:
            await connection.execute(_MOVE, project_id, id, max(now, target))
            return [], True
        instant = max(instant, now)
        catalog = (await load_projects(connection, changes.catalogs, {project_id}))[project_id].catalog
        unit = UnitOfWork(connection, changes.now())
        for row in await connection.fetch(_DUE, project_id, id, instant, _AT_ONCE):
            unit.catch_up(Stored(row["id"], decode(row["state"])), catalog, instant)
        told = await unit.commit()
        await connection.execute(_MOVE, project_id, id, instant)
        return told.get(0, []), False


def _clock(row: Any) -> TestClock:
    return TestClock(row["id"], row["name"], row["now_ms"], row["created_at"])


def _unknown(id: str) -> NotFound:
    return NotFound(f"There is no test clock {id!r} in this project.", param="test_clock_id")
