"""Counting new customers by the hour in which they were first seen."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_COUNT = query("count_newcomers")


class Count(Struct, frozen=True):
    """Customers up to key `counted` are in the figures; those up to `mark_id` are next."""

    counted: int
    mark_id: int | None
    mark_xid: int | None
    marked_at: Ms | None


class Seen(Struct, frozen=True):
    """What the transaction of a batch sees of a project's customers and of other transactions."""

    # The highest key of a customer; 0 if there is none.
    newest: int
    # Its own transaction id: higher than that of every transaction that had changed anything before the batch began.
    xid: int
    # Every transaction before this one has ended.
    oldest_xid: int


class Stretch(Struct, frozen=True):
    """Customers to count: those with keys after `counted`, up to `until`."""

    project_id: str
    counted: int
    until: int


class Counted(Struct, frozen=True):
    customers: int
    # The highest key that was counted.
    last: int


async def count(connection: Connection, stretches: Sequence[Stretch], limit: int) -> dict[str, Counted]:
    """Adds customers to their hours, up to `limit` of each project. By project; without those that had none."""
    rows = await connection.fetch(
        _COUNT,
        [one.project_id for one in stretches],
        [one.counted for one in stretches],
        [one.until for one in stretches],
        limit,
    )
    return {row["project_id"]: Counted(row["customers"], row["last"]) for row in rows}
