"""Replays: ranges of events that somebody asked to send again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_RECENT = query("replays_of_webhook")


@dataclass(frozen=True, slots=True)
class StartedReplay:
    id: str
    since_ms: Ms
    until_ms: Ms
    status: Literal["failed", "all"]
    created_at: Ms
    scheduled: int
    finished_at: Ms | None
    stopped_at: Ms | None


async def recent(connection: Connection, project_id: str, webhook_id: str, limit: int) -> list[StartedReplay]:
    """Newest first."""
    return [
        StartedReplay(
            id=row["id"],
            since_ms=row["since_ms"],
            until_ms=row["until_ms"],
            status=row["status"],
            created_at=row["created_at"],
            scheduled=row["scheduled"],
            finished_at=row["finished_at"],
            stopped_at=row["stopped_at"],
        )
        for row in await connection.fetch(_RECENT, project_id, webhook_id, limit)
    ]
