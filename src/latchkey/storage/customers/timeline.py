"""A customer's events with their deliveries, and its virtual currency transactions, newest first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_PLACE = query("event_by_id")
_NEWEST = query("newest_events_of_customer")
_DELIVERIES = query("deliveries_of_events")
_MOVEMENTS = query("movements_of_customer")
_MAX = 2**63 - 1


class Cursor(NamedTuple):
    """The position of an event in a customer's timeline. Higher is newer."""

    position: int
    # The customer key and sequence with which it was created.
    customer_key: int
    sequence: int


# After every event.
END = Cursor(_MAX, 0, _MAX)


class MovementCursor(NamedTuple):
    """The position of a currency transaction among a customer's. Higher is newer."""

    at: Ms
    key: str
    code: str


# After every movement.
LAST_MOVEMENT = MovementCursor(_MAX, "", "")


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    id: str
    # The customer's key and sequence when the event was created; its deliveries are stored under these.
    customer_key: int
    sequence: int
    type: str
    environment: str
    occurred_at: Ms
    # The event exactly as delivered, as JSON.
    body: bytes


@dataclass(frozen=True, slots=True)
class Sent:
    """An event's delivery to one webhook. The delivery has the event's id."""

    webhook_id: str
    webhook_name: str
    status: str
    attempts: int
    created_at: Ms
    finished_at: Ms | None
    response_status: int | None
    error: str | None
    # The webhook and its log were deleted since.
    is_gone: bool


@dataclass(frozen=True, slots=True)
class Movement:
    key: str
    code: str
    amount: int
    balance: int
    at: Ms
    reference: str | None


async def place_of(connection: Connection, project_id: str, event_id: str) -> Cursor | None:
    row = await connection.fetchrow(_PLACE, project_id, event_id)
    return None if row is None else Cursor(row["position"], row["customer_id"], row["sequence"])


async def newest(
    connection: Connection, project_id: str, customer_key: int, before: Cursor, limit: int
) -> list[TimelineEvent]:
    return [
        TimelineEvent(
            id=row["id"],
            customer_key=row["customer_id"],
            sequence=row["sequence"],
            type=row["type"],
            environment=row["environment"],
            occurred_at=row["occurred_at"],
            body=row["body"],
        )
        for row in await connection.fetch(_NEWEST, project_id, customer_key, *before, limit)
    ]


async def deliveries(
    connection: Connection, project_id: str, events: Sequence[tuple[int, int]]
) -> dict[str, list[Sent]]:
    """Of events by customer key and sequence: by event id; an event without deliveries is left out."""
    rows = await connection.fetch(_DELIVERIES, project_id, [key for key, _ in events], [number for _, number in events])
    by_event: dict[str, list[Sent]] = defaultdict(list)
    for row in rows:
        by_event[row["event_id"]].append(
            Sent(
                webhook_id=row["webhook_id"],
                webhook_name=row["webhook_name"],
                status=row["status"],
                attempts=row["attempts"],
                created_at=row["created_at"],
                finished_at=row["finished_at"],
                response_status=row["response_status"],
                error=row["error"],
                is_gone=row["is_gone"],
            )
        )
    return by_event


async def movements(
    connection: Connection, project_id: str, customer_key: int, before: MovementCursor, limit: int
) -> list[Movement]:
    rows = await connection.fetch(_MOVEMENTS, project_id, customer_key, *before, limit)
    return [
        Movement(
            key=row["idempotency_key"],
            code=row["code"],
            amount=row["amount"],
            balance=row["balance"],
            at=row["at"],
            reference=row["reference"],
        )
        for row in rows
    ]
