"""Events: written with the change that caused them, read as a feed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, json

from latchkey.domain.instants import Ms
from latchkey.storage.sql import query
from latchkey.wire.event import Event

_KNOWN = query("known_events")
_LOCK_FEEDS = query("lock_feeds")
_ADVANCE = query("advance_feeds")
_ADD = query("add_events")

_ENCODER = json.Encoder()


async def known(connection: Any, asked: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
    """Which of these (project, event id) exist already."""
    if not asked:
        return set()
    rows = await connection.fetch(_KNOWN, [project for project, _ in asked], [id for _, id in asked])
    return {(row["project_id"], row["id"]) for row in rows}


async def add(connection: Any, events: Sequence[tuple[str, int, Event]], now: Ms) -> None:
    """Append (project, customer's key, event) to the feeds. Call it last in a transaction: it holds the feeds' locks
    until commit, so that a reader with a cursor never skips an event that commits later."""
    if not events:
        return
    amounts = sorted(Counter(project for project, _, _ in events).items())
    if len(amounts) > 1:
        await connection.fetch(_LOCK_FEEDS, [project for project, _ in amounts])
    heads = await connection.fetch(_ADVANCE, [project for project, _ in amounts], [amount for _, amount in amounts])
    next_position = {row["project_id"]: row["position"] for row in heads}
    for project, amount in amounts:
        next_position[project] -= amount
    positions = []
    for project, _, _ in events:
        next_position[project] += 1
        positions.append(next_position[project])
    await connection.execute(
        _ADD,
        [project for project, _, _ in events],
        positions,
        [event.id for _, _, event in events],
        [key for _, key, _ in events],
        [event.sequence for _, _, event in events],
        [event.type for _, _, event in events],
        [event.environment for _, _, event in events],
        [None if event.app_id is UNSET else event.app_id for _, _, event in events],
        [event.event_timestamp_ms for _, _, event in events],
        [now] * len(events),
        [_ENCODER.encode(event) for _, _, event in events],
    )
