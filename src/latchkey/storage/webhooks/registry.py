"""What operators see of webhooks beside the log: counts of deliveries, failing webhooks, replays, operational
events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from latchkey.domain.instants import Ms
from latchkey.domain.webhooks.health import Health
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


_WEBHOOKS = query("list_webhooks")


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
        for row in await connection.fetch(_WEBHOOKS, project_id, None, None, None)
        if row["failing_since"] is not None
    ][:limit]


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


async def place_of_operational_event(connection: Connection, project_id: str, id: str) -> Cursor | None:
    row = await connection.fetchrow(_PLACE, project_id, id)
    return None if row is None else Cursor(row["at"], row["id"])


async def operational_events(
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
