"""Webhooks that need attention: failing now, or paused by the service because they failed for days."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.instants import Ms
from latchkey.domain.webhooks.health import paused_by_itself
from latchkey.storage.database import Database
from latchkey.storage.webhooks import troubles

# The most that a page shows; the list of webhooks shows all.
MOST = 20


@dataclass(frozen=True, slots=True)
class Trouble:
    webhook_id: str
    name: str
    failing_since: Ms
    # None while the service still tries to deliver.
    paused_at: Ms | None


async def troubles_of(database: Database, project_id: str) -> list[Trouble]:
    """Excludes webhooks paused by hand."""
    async with database.acquire() as connection:
        troubled = await troubles.troubled(connection, project_id, MOST)
    return [
        Trouble(one.id, one.name, since, one.health.paused_at)
        for one in troubled
        if (since := one.health.failing_since) is not None
        and (one.health.paused_at is None or paused_by_itself(one.health))
    ]
