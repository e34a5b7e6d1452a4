"""What the service itself has to tell its operator: a webhook fails, was paused, or works again."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.instants import Ms
from latchkey.domain.refusal import NotFound
from latchkey.storage.database import Database
from latchkey.storage.sql import query

_PAGE = query("page_of_operational_events")
_PLACE = query("operational_event_place")
_END = 2**63 - 1


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


async def page_of_operational_events(
    db: Database, project_id: str, *, webhook_id: str | None = None, after: str | None, limit: int
) -> list[OperationalEvent]:
    """The newest first."""
    place: tuple[int, str] = (_END, "")
    async with db.acquire() as connection:
        if after is not None:
            row = await connection.fetchrow(_PLACE, project_id, after)
            if row is None:
                raise NotFound(f"There is no operational event {after!r} to start after.", param="starting_after")
            place = row["at"], row["id"]
        rows = await connection.fetch(_PAGE, project_id, *place, webhook_id, limit)
    return [OperationalEvent(*row) for row in rows]
