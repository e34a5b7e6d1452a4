"""What happened to a customer, newest first, and where each of it was sent."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from latchkey.domain.instants import Ms
from latchkey.domain.refusal import NotFound
from latchkey.storage.database import Database
from latchkey.storage.sql import query

_PLACE = query("place_of_event")
_NEWEST = query("newest_events_of_customer")
_DELIVERIES = query("deliveries_of_events")
_MOVEMENTS = query("movements_of_customer")
_END = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Sent:
    """An event's delivery to one webhook. The event's id is the delivery's."""

    webhook_id: str
    webhook_name: str
    status: str
    attempts: int
    finished_at: Ms | None
    response_status: int | None
    error: str | None
    # The webhook was deleted since; its log is no more.
    is_gone: bool


@dataclass(frozen=True, slots=True)
class Happening:
    id: str
    type: str
    environment: str
    occurred_at: Ms
    # The event exactly as it is delivered, as JSON.
    body: bytes
    deliveries: tuple[Sent, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    happenings: list[Happening]
    # After which event the next page begins.
    before: str | None


@dataclass(frozen=True, slots=True)
class Movement:
    key: str
    code: str
    amount: int
    balance: int
    at: Ms
    reference: str | None


@dataclass(frozen=True, slots=True)
class Movements:
    items: list[Movement]
    more: bool


async def timeline(db: Database, project_id: str, key: int, *, before: str | None = None, limit: int = 25) -> Timeline:
    """A page of the events of the customer with this row; `before` is the id of the last one seen."""
    async with db.acquire() as connection:
        position, line, sequence = _END, 0, _END
        if before is not None:
            row = await connection.fetchrow(_PLACE, project_id, before)
            if row is None:
                raise NotFound(f"There is no event {before!r} to go on from.", param="before")
            position, line, sequence = row
        rows = await connection.fetch(_NEWEST, project_id, key, position, line, sequence, limit + 1)
        shown = rows[:limit]
        sent = await connection.fetch(
            _DELIVERIES, project_id, [row["customer_id"] for row in shown], [row["sequence"] for row in shown]
        )
    by_event: dict[str, list[Sent]] = defaultdict(list)
    for row in sent:
        by_event[row["event_id"]].append(
            Sent(
                row["webhook_id"],
                row["webhook_name"],
                row["status"],
                row["attempts"],
                row["finished_at"],
                row["response_status"],
                row["error"],
                row["is_gone"],
            )
        )
    happenings = [
        Happening(
            row["id"],
            row["type"],
            row["environment"],
            row["occurred_at"],
            row["body"],
            tuple(by_event.get(row["id"], ())),
        )
        for row in shown
    ]
    return Timeline(happenings, happenings[-1].id if len(rows) > limit else None)


async def movements(
    db: Database, project_id: str, key: int, *, before: tuple[Ms, str, str] | None = None, limit: int = 50
) -> Movements:
    """Credits and debits of virtual currency, newest first; `before` is (at, key, code) of the last one seen."""
    async with db.acquire() as connection:
        rows = await connection.fetch(_MOVEMENTS, project_id, key, *(before or (_END, "", "")), limit + 1)
    return Movements([Movement(*row) for row in rows[:limit]], len(rows) > limit)
