"""Webhooks whose latest deliveries all failed."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.webhooks.health import Health
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_TROUBLED = query("troubled_webhooks")


@dataclass(frozen=True, slots=True)
class TroubledWebhook:
    id: str
    name: str
    health: Health


async def troubled(connection: Connection, project_id: str, limit: int) -> list[TroubledWebhook]:
    """Oldest webhook first, including paused ones."""
    return [
        TroubledWebhook(
            id=row["id"],
            name=row["name"],
            health=Health(
                failures=row["failures"],
                open_until=row["open_until"],
                failing_since=row["failing_since"],
                announced_at=row["announced_at"],
                paused_at=row["paused_at"],
            ),
        )
        for row in await connection.fetch(_TROUBLED, project_id, limit)
    ]
