"""Deliveries are stored by the transaction that stores their events: what is committed will be delivered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from latchkey.domain.instants import Ms
from latchkey.storage.sql import query
from latchkey.wire.event import Event

CHANNEL = "latchkey_delivery"
_ENQUEUE = query("enqueue_deliveries")


async def enqueue(connection: Any, events: Sequence[tuple[str, int, Event]], now: Ms) -> None:
    """Queue (project, customer's key, event) for every webhook that wants it: one statement, whatever their number.

    Call it before the events take their places in the feed: it may wait a moment for a lane whose outcome is being
    recorded, and nobody should wait for a feed meanwhile.
    """
    if not events:
        return
    await connection.execute(
        _ENQUEUE,
        [project for project, _, _ in events],
        [key for _, key, _ in events],
        [event.sequence for _, _, event in events],
        [event.id for _, _, event in events],
        [event.type for _, _, event in events],
        [event.environment for _, _, event in events],
        [None if event.app_id is UNSET else event.app_id for _, _, event in events],
        now,
    )
