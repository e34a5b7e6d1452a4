"""Sends again: one delivery by hand, or everything committed in a time range."""

from dataclasses import dataclass
from uuid import uuid4

from latchkey.database.errors import MovedError
from latchkey.database.pool import Connection, Database
from latchkey.database.transient_errors import transaction
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import found
from latchkey.subjects.webhooks.rules import Replay, ReplayRange, Webhook, missing_webhook
from latchkey.subjects.webhooks.storage import delivery_rows, lanes
from latchkey.subjects.webhooks.storage.delivery_rows import TakenReplay
from latchkey.wire.attributes import from_attributes

# A batch locks its customers' lanes for a few milliseconds.
_BATCH = 500
_HURRIED = 5_000
# How many events are examined to count what a replay would send: about half a second.
_COUNTED = 20_000
# An event's time is read shortly before it gets its position in the feed, so the range is searched with a margin.
_SKEW_MS = 60_000
# Each time another transaction must have moved the same delivery, which moves only once.
_TRIES = 5


async def resend(database: Database, project_id: str, webhook_id: str, event_id: str, now: Ms) -> bool:
    """Send this event to this webhook again, at once, with a new retry schedule. False: there is no such delivery. One
    that waits for a retry is sent now instead."""
    for left in reversed(range(_TRIES)):
        try:
            async with transaction(database) as connection:
                key = await delivery_rows.resend(connection, project_id, webhook_id, event_id, now)
                if key is not None:
                    await lanes.wake(connection, key)
            return key is not None
        except MovedError:
            # Somebody else resends it too, and has just moved it to the part that is kept.
            if not left:
                raise
    raise AssertionError("unreachable")


async def send_waiting(database: Database, project_id: str, webhook_key: int, now: Ms) -> int:
    """Send everything that waits for a retry at this webhook now. Returns for how many customers something waited."""
    total = 0
    while True:
        async with transaction(database) as connection:
            hurried = await delivery_rows.hurry_all(connection, project_id, webhook_key, now, _HURRIED)
            await lanes.wake(connection, webhook_key)
        total += hurried
        if hurried < _HURRIED:
            return total


async def start_replay(database: Database, project_id: str, webhook_id: str, chosen: ReplayRange, now: Ms) -> Replay:
    """Queue what was committed in the range: failed deliveries, or everything that matches the webhook's filters,
    including events from before the webhook existed. The delivery role does it."""
    id, until = f"rep_{uuid4().hex[:20]}", now + 1 if chosen.until_ms is None else chosen.until_ms
    async with transaction(database) as connection:
        positions = await _positions(connection, project_id, chosen.since_ms, until)
        wanted = chosen.since_ms, until, chosen.status, chosen.event_types, now, *positions
        if not await delivery_rows.start(connection, project_id, webhook_id, id, *wanted):
            raise missing_webhook(webhook_id)
        await lanes.wake(connection, None)
    return await load_replay(database, project_id, webhook_id, id)


@dataclass(frozen=True, slots=True)
class ReplayCount:
    """What a replay would send."""

    deliveries: int
    # How many of them have failed and wait for a retry.
    retrying: int
    # Whether the whole range was examined. If not, there may be more.
    complete: bool


async def count_replay(database: Database, webhook: Webhook, chosen: ReplayRange, now: Ms) -> ReplayCount:
    """What `start_replay` would send, by the same rules. Examines a bounded number of events."""
    until = now + 1 if chosen.until_ms is None else chosen.until_ms
    async with transaction(database) as connection:
        first, last = await _positions(connection, webhook.project_id, chosen.since_ms, until)
        replay = from_attributes(
            TakenReplay,
            webhook,
            id="",
            webhook_key=webhook.key,
            since_ms=chosen.since_ms,
            until_ms=until,
            status=chosen.status,
            event_types=chosen.event_types,
            position=first,
            last_position=last,
            webhook_event_types=webhook.event_types,
        )
        events = await delivery_rows.next_events(connection, replay, _COUNTED)
    wanted = [event for event in events if event.wanted]
    return ReplayCount(len(wanted), sum(event.retrying for event in wanted), len(events) < _COUNTED)


async def stop_replay(database: Database, project_id: str, webhook_id: str, id: str, now: Ms) -> int | None:
    """Queue nothing more, and take back what is queued. Returns how many deliveries that were. None: there is no such
    replay, or it was stopped before and nothing of it was left."""
    async with transaction(database) as connection:
        stopped = await delivery_rows.stop(connection, project_id, webhook_id, id, now)
    if stopped is None:
        return None
    total = 0
    while True:
        async with transaction(database) as connection:
            back = await delivery_rows.unqueue(connection, project_id, stopped.webhook_key, id, now, _HURRIED)
            # The answer of what was under way no longer says that its lane goes on.
            await lanes.wake(connection, stopped.webhook_key)
        total += back
        if not back:
            return None if stopped.again and not total else total


async def load_replay(database: Database, project_id: str, webhook_id: str, id: str) -> Replay:
    replay = await delivery_rows.load_replay(database, project_id, webhook_id, id)
    return found(replay, f"Webhook {webhook_id!r} has no replay {id!r}.", "replay_id")


recent_replays = delivery_rows.recent_replays
is_queued = delivery_rows.is_queued


async def work_off(database: Database, now: Ms) -> bool:
    """Queue the next batch of the oldest replay. False: there is nothing to do."""
    async with transaction(database) as connection:
        replay = await delivery_rows.take(connection)
        if replay is None:
            return False
        events = [] if replay.webhook_deleted else await delivery_rows.next_events(connection, replay, _BATCH)
        wanted = [event for event in events if event.wanted]
        scheduled = hurried = 0
        if wanted:
            scheduled, hurried = await delivery_rows.requeue(connection, replay, wanted, now)
            await lanes.wake(connection, replay.webhook_key)
        done = len(events) < _BATCH
        position = replay.last_position if done else events[-1].position
        await delivery_rows.advance(connection, replay.id, position, scheduled, now if done else None, hurried)
    return True


async def _positions(connection: Connection, project_id: str, since: Ms, until: Ms) -> tuple[int, int]:
    """What was committed in this time is after the first and up to the second position."""
    end = await delivery_rows.feed_end(connection, project_id) or 0
    first = await _position_before(connection, project_id, since - _SKEW_MS, end)
    return first, max(first, await _position_before(connection, project_id, until + _SKEW_MS, end))


async def _position_before(connection: Connection, project_id: str, moment: Ms, end: int) -> int:
    """The last position whose event was committed before this time. Events are in commit order, so a binary search
    finds it without an index on time."""
    low, high = 0, end
    while low < high:
        middle = (low + high + 1) // 2
        at = await delivery_rows.committed_at(connection, project_id, middle)
        if at is not None and at < moment:
            low = middle
        else:
            high = middle - 1
    return low
