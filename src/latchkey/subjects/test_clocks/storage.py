"""Test clocks, and the customers on them."""

from msgspec import Struct

from latchkey.database.pool import Connection, Database
from latchkey.database.rows import Listing, executes, finds_value, item_of, saves
from latchkey.database.sql import query
from latchkey.domain.instants import Ms
from latchkey.engine.storage.records import Stored
from latchkey.engine.storage.state import decode
from latchkey.subjects.test_clocks.rules import Inhabitant, TestClock

CLOCKS = Listing("test clock", query("clocks_of_project"), TestClock, param="test_clock_id", by_age=True)
_CUSTOMERS = query("customers_on_clock")


create = saves(query("create_clock"), "id", "name", "now", "created_at")
# The clock's time, with a share lock: it does not move until the transaction ends. None: there is no such clock.
share = finds_value(int, query("share_clock"))
# Sets the clock's time. With None its row is only locked. Returns the time; None: there is no such clock.
move = finds_value(int, query("set_clock"))
# When the next customer of the clock falls due, if that is not later than an instant.
next_due = finds_value(int, query("next_due_on_clock"))
delete = executes(query("delete_clock"))


async def lock_due(connection: Connection, project_id: str, id: str, instant: Ms, limit: int) -> list[Stored]:
    """Customers of the clock who are due at this instant, locked for update."""
    rows = await connection.fetch(query("customers_due_on_clock"), project_id, id, instant, limit)
    return [Stored(row["id"], decode(row["state"])) for row in rows]


async def is_used(connection: Connection, project_id: str, id: str) -> bool:
    return bool(await connection.fetch(_CUSTOMERS, project_id, id, 1))


class ListedClock(Struct, frozen=True):
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
