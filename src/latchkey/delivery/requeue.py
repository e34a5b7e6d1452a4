"""Sending again: one delivery by hand, or everything since a moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal
from uuid import uuid4

from latchkey.domain.instants import Ms
from latchkey.storage.database import Database
from latchkey.storage.sql import query

_FIND = query("find_delivery")
_LOCK = query("lock_lanes")
_HURRY = query("hurry_lane")
_RESEND = query("resend_delivery")
_WAKE = query("wake_workers")
_FEED_END = query("feed_end")
_COMMITTED_AT = query("committed_at")
_START = query("start_replay")
_LOAD = query("load_replay")
_TAKE = query("take_replay")
_STRETCH = query("events_to_replay")
_REQUEUE = query("requeue_deliveries")
_ADVANCE = query("advance_replay")

# A batch holds its customers' lanes for a few milliseconds.
_BATCH = 500
# An event's moment is read a little before it takes its place in the feed.
_SKEW_MS = 60_000


@dataclass(frozen=True, slots=True)
class Replay:
    id: str
    webhook_id: str
    since_ms: Ms
    until_ms: Ms
    status: Literal["failed", "all"]
    event_types: tuple[str, ...]
    created_at: Ms
    # How many events of the range have been looked at, of how many.
    examined: int
    total: int
    # How many deliveries it has queued so far, and what became of them.
    scheduled: int
    delivered: int
    failed: int
    finished_at: Ms | None


async def resend(db: Database, project_id: str, webhook_id: str, event_id: str, now: Ms) -> bool:
    """Send this event to this webhook once more, at once, with a fresh retry schedule; False when there is no such
    delivery. One that waits already is sent now instead of at its next retry."""
    async with db.transaction() as connection:
        found = await connection.fetchrow(_FIND, project_id, webhook_id, event_id)
        if found is None:
            return False
        key, customer, sequence = found["key"], found["customer_id"], found["sequence"]
        # Whoever records an outcome takes the lane first and the delivery then; so do we.
        await connection.fetch(_LOCK, project_id, key, [customer], [0, sequence])
        await connection.execute(_HURRY, project_id, customer, key, sequence, now)
        await connection.execute(_RESEND, project_id, customer, key, sequence, now)
        await connection.execute(_WAKE, str(key))
    return True


async def start_replay(
    db: Database,
    project_id: str,
    webhook_id: str,
    *,
    since_ms: Ms,
    until_ms: Ms | None,
    status: Literal["failed", "all"],
    event_types: tuple[str, ...] = (),
    now: Ms,
) -> Replay | None:
    """Queue what was committed in the range: what failed, or all that the webhook's filters admit, delivered or not,
    from before the webhook existed too. The delivery role works it off; None when there is no such webhook."""
    until = now + 1 if until_ms is None else until_ms
    id = f"rep_{uuid4().hex[:20]}"
    async with db.transaction() as connection:
        end = await connection.fetchval(_FEED_END, project_id) or 0
        first = await _position_before(connection, project_id, since_ms - _SKEW_MS, end)
        last = await _position_before(connection, project_id, until + _SKEW_MS, end)
        if not await connection.fetchval(
            _START, project_id, webhook_id, id, since_ms, until, status, event_types, now, first, max(first, last)
        ):
            return None
        await connection.execute(_WAKE, "")
    return await load_replay(db, project_id, webhook_id, id)


async def load_replay(db: Database, project_id: str, webhook_id: str, id: str) -> Replay | None:
    row = await db.pool.fetchrow(_LOAD, project_id, webhook_id, id)
    return Replay(**{**dict(row), "event_types": tuple(row["event_types"])}) if row is not None else None


async def work_off(db: Database, now: Ms) -> bool:
    """Queue the next batch of the oldest replay; False when there is nothing to do."""
    async with db.transaction() as connection:
        replay = await connection.fetchrow(_TAKE)
        if replay is None:
            return False
        project_id, key = replay["project_id"], replay["webhook_key"]
        rows = (
            await connection.fetch(
                _STRETCH,
                project_id,
                key,
                replay["position"],
                replay["last_position"],
                _BATCH,
                replay["since_ms"],
                replay["until_ms"],
                replay["event_types"],
                replay["environment"],
                replay["wanted_types"],
                replay["app_id"],
                replay["status"],
            )
            if replay["deleted_at"] is None
            else []
        )
        wanted = [row for row in rows if row["wanted"]]
        scheduled = 0
        if wanted:
            await connection.fetch(_LOCK, project_id, key, sorted({row["customer_id"] for row in wanted}), [0])
            scheduled = await connection.fetchval(
                _REQUEUE,
                project_id,
                key,
                replay["id"],
                now,
                [row["customer_id"] for row in wanted],
                [row["sequence"] for row in wanted],
                [row["id"] for row in wanted],
                [row["type"] for row in wanted],
                [row["committed_at"] for row in wanted],
            )
            await connection.execute(_WAKE, str(key))
        done = len(rows) < _BATCH
        position = replay["last_position"] if done else rows[-1]["position"]
        await connection.execute(_ADVANCE, replay["id"], position, scheduled, now if done else None)
    return True


async def _position_before(connection: Any, project_id: str, moment: Ms, end: int) -> int:
    """The last position whose event was committed before the moment: events are in the order of their commits, so it
    is found by halving, without an index over time."""
    low, high = 0, end
    while low < high:
        middle = (low + high + 1) // 2
        at = await connection.fetchval(_COMMITTED_AT, project_id, middle)
        if at is not None and at < moment:
            low = middle
        else:
            high = middle - 1
    return low
