"""What the registry of webhooks reads from the log: counts of deliveries, and whether an id was ever used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_COUNTS = query("count_deliveries_of_webhooks")
_WAS_MADE = query("webhook_was_made")


@dataclass(frozen=True, slots=True)
class DeliveryCounts:
    """Counts of a webhook's deliveries."""

    waiting: int = 0
    failed: int = 0
    last_success_at: Ms | None = None


async def delivery_counts(connection: Connection, webhook_keys: Sequence[int]) -> dict[int, DeliveryCounts]:
    """By webhook key."""
    rows = await connection.fetch(_COUNTS, webhook_keys)
    return {row["key"]: DeliveryCounts(row["waiting"], row["failed"], row["last_success_at"]) for row in rows}


async def was_made(connection: Connection, project_id: str, webhook_id: str) -> bool:
    """Whether a webhook with this id exists, or existed and is not pruned yet."""
    known: bool = await connection.fetchval(_WAS_MADE, project_id, webhook_id)
    return known
