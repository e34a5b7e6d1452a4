"""What was sent again to a webhook lately. What became of it is counted for one at a time, by `requeue.load_replay`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from latchkey.domain.instants import Ms
from latchkey.storage.database import Database
from latchkey.storage.sql import query

_RECENT = query("replays_of_webhook")


@dataclass(frozen=True, slots=True)
class Started:
    id: str
    since_ms: Ms
    until_ms: Ms
    status: Literal["failed", "all"]
    created_at: Ms
    scheduled: int
    finished_at: Ms | None


async def recent_replays(db: Database, project_id: str, webhook_id: str, limit: int) -> list[Started]:
    """The newest first."""
    return [Started(*row) for row in await db.pool.fetch(_RECENT, project_id, webhook_id, limit)]
