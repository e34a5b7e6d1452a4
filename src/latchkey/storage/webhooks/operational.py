"""Operational events about webhooks, for the operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_PAGE = query("page_of_operational_events")
_PLACE = query("operational_event_place")


class Cursor(NamedTuple):
    """The position of an operational event in the list. Higher is newer."""

    at: Ms
    id: str


# After every event.
END = Cursor(2**63 - 1, "")


@dataclass(frozen=True, slots=True)
class OperationalEvent:
    id: str
    project_id: str
    type: str
    webhook_id: str
    at: Ms
    # JSON.
    body: bytes
    delivered_at: Ms | None
    error: str | None


async def place_of(connection: Connection, project_id: str, id: str) -> Cursor | None:
    row = await connection.fetchrow(_PLACE, project_id, id)
    return None if row is None else Cursor(row["at"], row["id"])


async def page(
    connection: Connection, project_id: str, before: Cursor, webhook_id: str | None, limit: int
) -> list[OperationalEvent]:
    """Newest first, of one webhook or of all."""
    return [
        OperationalEvent(
            id=row["id"],
            project_id=row["project_id"],
            type=row["type"],
            webhook_id=row["webhook_id"],
            at=row["at"],
            body=row["body"],
            delivered_at=row["delivered_at"],
            error=row["error"],
        )
        for row in await connection.fetch(_PAGE, project_id, *before, webhook_id, limit)
    ]
