"""Counting new customers by the hour in which they were first seen."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_NEWEST = query("newest_customer")
_XID = query("present_xid")
_COUNT = query("count_newcomers")


@dataclass(frozen=True, slots=True)
class Count:
    """Customers up to key `counted` are in the figures; those up to `mark_id` are next."""

    counted: int
    mark_id: int | None
    mark_xid: int | None
    marked_at: Ms | None


@dataclass(frozen=True, slots=True)
class Counted:
    customers: int
    # The highest key that was counted; None if there was none.
    last: int | None


async def newest_customer(connection: Connection, project_id: str) -> int:
    """The highest key; 0 if the project has no customers."""
    newest: int | None = await connection.fetchval(_NEWEST, project_id)
    return newest or 0


async def present_xid(connection: Connection) -> int:
    """A transaction id higher than that of every transaction that has changed anything so far."""
    xid: int = await connection.fetchval(_XID)
    return xid


async def count(connection: Connection, project_id: str, after: int, until: int, limit: int) -> Counted:
    """Adds customers with keys after `after`, up to `until`, to their hours."""
    row = await connection.fetchrow(_COUNT, project_id, after, until, limit)
    assert row is not None, "an aggregate always has a row"
    return Counted(row["customers"], row["last"])
