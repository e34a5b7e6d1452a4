"""Events of the past, for the demo's history."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, json

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection
from latchkey.storage.sql import query
from latchkey.wire.event import Event

_ADD = query("add_past_events")
_ENCODER = json.Encoder()


async def add_events(connection: Connection, project_id: str, events: Sequence[tuple[int, Event]], now: Ms) -> None:
    """Adds them to the feed in this order, each with its customer's key. No webhook gets a delivery. Call it last in a
    transaction: it holds the feed's lock until the commit."""
    if not events:
        return
    await connection.execute(
        _ADD,
        project_id,
        now,
        [key for key, _ in events],
        [event.id for _, event in events],
        [event.sequence for _, event in events],
        [event.type for _, event in events],
        [event.environment for _, event in events],
        [None if event.app_id is UNSET else event.app_id for _, event in events],
        [event.event_timestamp_ms for _, event in events],
        [_ENCODER.encode(event) for _, event in events],
    )
