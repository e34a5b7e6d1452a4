"""The feed of events, oldest first, as the API lists it."""

from __future__ import annotations

from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_OF_PROJECT = query("events_of_project")
_AFTER_EVENT = query("events_after_event")
_OF_CUSTOMER = query("events_of_customer")
_BY_ID = query("event_by_id")


async def position_of(connection: Connection, project_id: str, event_id: str) -> int | None:
    row = await connection.fetchrow(_BY_ID, project_id, event_id)
    return None if row is None else row["position"]


async def bodies(connection: Connection, project_id: str, after: int, limit: int) -> list[bytes]:
    """Event bodies exactly as delivered, after a position."""
    return [row["body"] for row in await connection.fetch(_OF_PROJECT, project_id, after, limit)]


async def bodies_after(connection: Connection, project_id: str, event_id: str, limit: int) -> list[bytes] | None:
    """The same after an event. None: there is no such event."""
    rows = await connection.fetch(_AFTER_EVENT, project_id, event_id, limit)
    return [row["body"] for row in rows if row["body"] is not None] if rows else None


async def bodies_of_customer(
    connection: Connection, project_id: str, customer_key: int, after: int, limit: int
) -> list[bytes]:
    """The same for one customer, with the events of customers that were merged into this one."""
    return [row["body"] for row in await connection.fetch(_OF_CUSTOMER, project_id, customer_key, after, limit)]
