"""The latest replays of a webhook. `requeue.load_replay` counts the outcome of one replay."""

from __future__ import annotations

from latchkey.storage.database import Database
from latchkey.storage.webhooks import replays
from latchkey.storage.webhooks.replays import StartedReplay


async def recent_replays(database: Database, project_id: str, webhook_id: str, limit: int) -> list[StartedReplay]:
    """Newest first."""
    async with database.acquire() as connection:
        return await replays.recent(connection, project_id, webhook_id, limit)
