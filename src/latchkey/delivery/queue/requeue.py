"""Sends again: one delivery by hand, or everything committed in a time range."""

from __future__ import annotations

from uuid import uuid4

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection, Database
from latchkey.storage.deliveries import requeue, wakeups
from latchkey.storage.deliveries.requeue import NewReplay, Replay, Which
from latchkey.storage.errors import MovedError
from latchkey.storage.outages import transaction

# A batch locks its customers' lanes for a few milliseconds.
_BATCH = 500
# An event's time is read shortly before it gets its position in the feed, so the range is searched with a margin.
_SKEW_MS = 60_000
# Each time another transaction must have moved the same delivery, which moves only once.
_TRIES = 5


async def resend(database: Database, project_id: str, webhook_id: str, event_id: str, now: Ms) -> bool:
    """Send this event to this webhook again, at once, with a new retry schedule. False: there is no such delivery. One
    that waits for a retry is sent now instead."""
    for _ in range(_TRIES):
        try:
            return await _resend(database, project_id, webhook_id, event_id, now)
        except MovedError:
            # Somebody else resends it too, and has just moved it to the part that is kept.
            continue
    return await _resend(database, project_id, webhook_id, event_id, now)


async def _resend(database: Database, project_id: str, webhook_id: str, event_id: str, now: Ms) -> bool:
    async with transaction(database) as connection:
        place = await requeue.find(connection, project_id, webhook_id, event_id)
        if place is None:
            return False
        await requeue.resend(connection, place, now)
        await wakeups.wake(connection, place.webhook_key)
    return True


async def start_replay(
    database: Database,
    project_id: str,
    webhook_id: str,
    *,
    since_ms: Ms,
    until_ms: Ms | None,
    status: Which,
    event_types: tuple[str, ...] = (),
    now: Ms,
) -> Replay | None:
    """Queue what was committed in the range: failed deliveries, or everything that matches the webhook's filters,
    including events from before the webhook existed. The delivery role does it. None: there is no such webhook."""
    until = now + 1 if until_ms is None else until_ms
    id = f"rep_{uuid4().hex[:20]}"
    async with transaction(database) as connection:
        end = await requeue.feed_end(connection, project_id)
        first = await _position_before(connection, project_id, since_ms - _SKEW_MS, end)
        last = await _position_before(connection, project_id, until + _SKEW_MS, end)
        replay = NewReplay(id, since_ms, until, status, event_types, first, max(first, last))
        if not await requeue.start(connection, project_id, webhook_id, replay, now):
            return None
        await wakeups.wake(connection, None)
    return await load_replay(database, project_id, webhook_id, id)


async def load_replay(database: Database, project_id: str, webhook_id: str, id: str) -> Replay | None:
    return await requeue.load(database, project_id, webhook_id, id)


async def some_unfinished(database: Database) -> bool:
    """Whether there is a replay to work on, perhaps one that another worker has locked."""
    return await requeue.some_unfinished(database)


async def work_off(database: Database, now: Ms) -> bool:
    """Queue the next batch of the oldest replay. False: there is nothing to do."""
    async with transaction(database) as connection:
        replay = await requeue.take(connection)
        if replay is None:
            return False
        events = [] if replay.webhook_deleted else await requeue.next_events(connection, replay, _BATCH)
        wanted = [one for one in events if one.wanted]
        scheduled = 0
        if wanted:
            scheduled = await requeue.requeue(connection, replay, wanted, now)
            await wakeups.wake(connection, replay.webhook_key)
        done = len(events) < _BATCH
        position = replay.last_position if done else events[-1].position
        await requeue.advance(connection, replay.id, position, scheduled, now if done else None)
    return True


async def _position_before(connection: Connection, project_id: str, moment: Ms, end: int) -> int:
    """The last position whose event was committed before this time. Events are in commit order, so a binary search
    finds it without an index on time."""
    low, high = 0, end
    while low < high:
        middle = (low + high + 1) // 2
        at = await requeue.committed_at(connection, project_id, middle)
        if at is not None and at < moment:
            low = middle
        else:
            high = middle - 1
    return low
