"""A customer's events, newest first, with their deliveries; and its virtual currency transactions."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.instants import Ms
from latchkey.domain.refusal import NotFound
from latchkey.storage.customers import timeline as customer_timeline
from latchkey.storage.customers.timeline import Movement, MovementCursor, Sent
from latchkey.storage.database import Database


@dataclass(frozen=True, slots=True)
class Happening:
    id: str
    type: str
    environment: str
    occurred_at: Ms
    # The event exactly as delivered, as JSON.
    body: bytes
    deliveries: tuple[Sent, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    happenings: list[Happening]
    # The next page begins after the event with this id.
    before: str | None


@dataclass(frozen=True, slots=True)
class Movements:
    items: list[Movement]
    more: bool


async def timeline(
    database: Database, project_id: str, key: int, *, before: str | None = None, limit: int = 25
) -> Timeline:
    """A page of the events of the customer with this key; `before` is the id of the last event seen."""
    async with database.acquire() as connection:
        place = customer_timeline.END
        if before is not None:
            known = await customer_timeline.place_of(connection, project_id, before)
            if known is None:
                raise NotFound(f"There is no event {before!r} to go on from.", param="before")
            place = known
        events = await customer_timeline.newest(connection, project_id, key, place, limit + 1)
        shown = events[:limit]
        sent = await customer_timeline.deliveries(connection, project_id, shown)
    happenings = [
        Happening(one.id, one.type, one.environment, one.occurred_at, one.body, tuple(sent.get(one.id, ())))
        for one in shown
    ]
    return Timeline(happenings, happenings[-1].id if len(events) > limit else None)


async def movements(
    database: Database, project_id: str, key: int, *, before: tuple[Ms, str, str] | None = None, limit: int = 50
) -> Movements:
    """Credits and debits of virtual currency, newest first; `before` is (at, key, code) of the last one seen."""
    place = customer_timeline.LAST_MOVEMENT if before is None else MovementCursor(*before)
    async with database.acquire() as connection:
        found = await customer_timeline.movements(connection, project_id, key, place, limit + 1)
    return Movements(found[:limit], len(found) > limit)
