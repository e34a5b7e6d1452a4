"""Operational events for the operator: a webhook fails, was paused, or works again."""

from __future__ import annotations

from latchkey.domain.refusal import NotFound
from latchkey.storage.database import Database
from latchkey.storage.webhooks import operational
from latchkey.storage.webhooks.operational import OperationalEvent as OperationalEvent


async def page_of_operational_events(
    database: Database, project_id: str, *, webhook_id: str | None = None, after: str | None, limit: int
) -> list[OperationalEvent]:
    """Newest first."""
    async with database.acquire() as connection:
        before = operational.END
        if after is not None:
            place = await operational.place_of(connection, project_id, after)
            if place is None:
                raise NotFound(f"There is no operational event {after!r} to start after.", param="starting_after")
            before = place
        return await operational.page(connection, project_id, before, webhook_id, limit)
