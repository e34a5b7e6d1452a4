"""Test clocks, and the customers on them."""

from dataclasses import dataclass
from functools import partial

from latchkey.database.pool import Connection, Database, Executor
from latchkey.database.rows import Listing, item_of
from latchkey.database.sql import query
from latchkey.domain.instants import Ms
from latchkey.engine.storage.records import Stored
from latchkey.engine.storage.state import decode
from latchkey.subjects.test_clocks.rules import Inhabitant, TestClock

CLOCKS = Listing(
    "test clock", query("clocks_of_project"), partial(item_of, TestClock), param="test_clock_id", by_age=True
)
_SET = query("set_clock")
_CUSTOMERS = query("customers_on_clock")


async def create(connection: Executor, project_id: str, clock: TestClock) -> None:
    await connection.execute(query("create_clock"), project_id, clock.id, clock.name, clock.now, clock.created_at)


async def share(connection: Connection, project_id: str, id: str) -> Ms | None:
    """The clock's time, with a share lock: it does not move until the transaction ends. None: there is no such
    clock."""
    now: Ms | None = await connection.fetchval(query("share_clock"), project_id, id)
    return now


async def hold(connection: Connection, project_id: str, id: str) -> Ms | None:
    """The clock's time, with its row locked for update. None: there is no such clock."""
    now: Ms | None = await connection.fetchval(_SET, project_id, id, None)
    return now


async def move(connection: Connection, project_id: str, id: str, now: Ms) -> None:
    await connection.execute(_SET, project_id, id, now)


async def next_due(connection: Executor, project_id: str, id: str, until: Ms) -> Ms | None:
    """When the next customer of the clock falls due, if that is not later than `until`."""
    instant: Ms | None = await connection.fetchval(query("next_due_on_clock"), project_id, id, until)
    return instant


async def lock_due(connection: Connection, project_id: str, id: str, instant: Ms, limit: int) -> list[Stored]:
    """Customers of the clock who are due at this instant, locked for update."""
    rows = await connection.fetch(query("customers_due_on_clock"), project_id, id, instant, limit)
    return [Stored(row["id"], decode(row["state"])) for row in rows]


async def is_used(connection: Connection, project_id: str, id: str) -> bool:
    return bool(await connection.fetch(_CUSTOMERS, project_id, id, 1))


async def delete(connection: Connection, project_id: str, id: str) -> None:
    await connection.execute(query("delete_clock"), project_id, id)


@dataclass(frozen=True, slots=True)
class ListedClock:
    clock: TestClock
    customers: int
    next_due_at: Ms | None


async def newest(database: Database, project_id: str, after: str | None, limit: int) -> list[ListedClock]:
    rows = await database.pool.fetch(query("newest_clocks"), project_id, after, limit)
    return [item_of(ListedClock, row, clock=dict(row)) for row in rows]


async def inhabitants(database: Database, project_id: str, clock_id: str, limit: int) -> list[Inhabitant]:
    """The customers of a clock; those who fall due first come first."""
    rows = await database.pool.fetch(_CUSTOMERS, project_id, clock_id, limit)
    return [Inhabitant(decode(row["state"]), row["next_due_at"]) for row in rows]
