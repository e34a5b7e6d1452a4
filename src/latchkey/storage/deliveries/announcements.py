"""Operational events about webhooks, and whether they were delivered to the operator's own URL."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection, Database
from latchkey.storage.outages import translates_errors
from latchkey.storage.sql import query

_ANNOUNCE = query("announce")
_CLAIM = query("claim_announcements")
_RECORD = query("record_announcement")


@dataclass(frozen=True, slots=True)
class OperationalEvent:
    id: str
    project_id: str
    webhook_id: str
    type: str
    at: Ms
    body: bytes


@dataclass(frozen=True, slots=True)
class DueAnnouncement:
    project_id: str
    id: str
    at: Ms
    attempts: int
    body: bytes


async def announce(connection: Connection, event: OperationalEvent) -> None:
    """Stores an operational event; it is due for delivery at once."""
    await connection.execute(_ANNOUNCE, event.project_id, event.id, event.webhook_id, event.type, event.at, event.body)


@translates_errors
async def claim(database: Database, now: Ms, lease_until: Ms) -> list[DueAnnouncement]:
    """Claims what is due. No other worker gets it until the lease runs out."""
    rows = await database.pool.fetch(_CLAIM, now, lease_until)
    return [DueAnnouncement(row["project_id"], row["id"], row["at"], row["attempts"], row["body"]) for row in rows]


@translates_errors
async def record(
    database: Database, announcement: DueAnnouncement, *, next_at: Ms | None, delivered_at: Ms | None, error: str | None
) -> None:
    await database.pool.execute(_RECORD, announcement.project_id, announcement.id, next_at, delivered_at, error)
