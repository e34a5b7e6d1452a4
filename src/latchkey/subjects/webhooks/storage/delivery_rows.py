"""The log of deliveries: what was sent to a webhook, when, and what the receiver answered; and sending again: one
delivery, or (a replay) a range of a project's feed."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from msgspec import Raw, Struct

from latchkey.database.pool import Connection, Database, Record
from latchkey.database.rows import executes, fetch_all, fetches_one, fetches_value, finds_value, item_of, returns_row
from latchkey.database.sql import query
from latchkey.database.transient_errors import translates_errors
from latchkey.domain.events.customer_event import Dialect, selected
from latchkey.domain.instants import Ms
from latchkey.subjects.webhooks.rules import Attempt, Delivery, DeliveryFilter, DeliveryPage, Detail, Replay, Which

_WEBHOOK = query("list_webhooks")
_LOAD = query("load_delivery")
_LOCK = query("lock_lanes")
_HURRY = query("hurry_deliveries")
_REPLAYS = query("list_replays")
_REQUEUE = query("requeue_deliveries")


class DeliveryCursor(NamedTuple):
    """The position of a delivery in a webhook's log. Higher is newer."""

    created_at: Ms
    customer_id: int
    sequence: int


_MAX = 2**63 - 1
# After every delivery.
END = DeliveryCursor(_MAX, _MAX, _MAX)


class FailedAttempt(Struct, frozen=True):
    event_id: str
    event_type: str
    attempt: Attempt


async def webhook_key(connection: Connection, project_id: str, webhook_id: str) -> int | None:
    """The key that a webhook's deliveries are stored under. None: there is no such webhook."""
    row = await connection.fetchrow(_WEBHOOK, project_id, None, 1, webhook_id)
    return None if row is None else row["key"]


async def place_of(connection: Connection, project_id: str, webhook_key: int, event_id: str) -> DeliveryCursor | None:
    row = await connection.fetchrow(_LOAD, project_id, event_id, webhook_key)
    return None if row is None else DeliveryCursor(row["created_at"], row["customer_id"], row["sequence"])


def _delivery(row: Record, webhook_id: str) -> Delivery:
    others = {"id": row["event_id"], "customer_id": row["app_user_id"], "attempts_count": row["attempts"]}
    return item_of(Delivery, row, webhook_id=webhook_id, **others)


def _attempt(row: Record) -> Attempt:
    headers, body = row["response_headers"], row["response_body"]
    return Attempt(
        number=row["number"],
        at=row["at"],
        milliseconds=row["took_ms"],
        error=row["error"],
        request_headers=Raw(row["request_headers"]),
        response_status=row["status"],
        response_headers=None if headers is None else Raw(headers),
        response_body=None if body is None else body.decode("utf-8", "replace"),
    )


async def page(
    connection: Connection,
    webhook_id: str,
    webhook_key: int,
    before: DeliveryCursor,
    chosen: DeliveryFilter,
    limit: int,
    examined: int,
) -> DeliveryPage:
    """Newest first. Examines at most `examined` deliveries, so that a rare status does not read the whole log. If that
    ended the search, the page names the event of the last one."""
    answered = chosen.answered or (None, None)
    rows = await connection.fetch(
        query("page_of_deliveries"),
        webhook_key,
        *before,
        chosen.since or 0,
        chosen.status,
        chosen.type,
        limit,
        examined,
        *answered,
    )
    mark = rows.pop()["event_id"] if rows and rows[-1]["is_mark"] else None
    return DeliveryPage([_delivery(row, webhook_id) for row in rows], mark)


async def page_of_customer(
    connection: Connection,
    project_id: str,
    customer_key: int,
    webhook_id: str,
    webhook_key: int,
    before: DeliveryCursor,
    chosen: DeliveryFilter,
    limit: int,
) -> list[Delivery]:
    """Newest first, with the deliveries of customers that were merged into this one."""
    fitting = chosen.status, chosen.type, limit, webhook_key, *(chosen.answered or (None, None)), chosen.since or 0
    asked = project_id, customer_key, *before, *fitting
    return [_delivery(row, webhook_id) for row in await connection.fetch(query("deliveries_of_customer"), *asked)]


async def load(
    connection: Connection, project_id: str, webhook_id: str, webhook_key: int, event_id: str
) -> Detail | None:
    row = await connection.fetchrow(_LOAD, project_id, event_id, webhook_key)
    if row is None:
        return None
    place = project_id, row["customer_id"], webhook_key, row["sequence"]
    attempts = [_attempt(attempt) for attempt in await connection.fetch(query("attempts_of_delivery"), *place)]
    return Detail(_delivery(row, webhook_id), row["body"], row["next_at"], attempts, row["dialect"])


async def forget(connection: Connection, project_id: str, event_ids: Collection[str]) -> None:
    """Removes what was sent of these events, and what receivers answered: they may repeat it. The lanes first: whoever
    records an attempt locks them. So what was recorded meanwhile is found too, and nothing is recorded later."""
    await connection.execute(query("disown_lanes"), project_id, event_ids)
    await connection.execute(query("forget_deliveries"), project_id, event_ids, "removed when a customer was erased")


async def last_failed_attempt(connection: Connection, webhook_key: int) -> FailedAttempt | None:
    """The newest failed attempt that can be found without reading the whole log."""
    row = await connection.fetchrow(query("last_failed_attempt"), webhook_key)
    return None if row is None else FailedAttempt(row["event_id"], row["event_type"], _attempt(row))


class TakenReplay(Struct, frozen=True):
    """A replay to work on, and the filters of its webhook."""

    id: str
    project_id: str
    webhook_key: int
    since_ms: Ms
    until_ms: Ms
    status: Which
    event_types: tuple[str, ...]
    position: int
    last_position: int
    environment: str | None
    webhook_event_types: tuple[str, ...]
    app_id: str | None
    dialect: str
    webhook_deleted: bool = False


class ReplayedEvent(Struct, frozen=True):
    position: int
    customer_id: int
    sequence: int
    id: str
    type: str
    committed_at: Ms
    # Whether the filters of the replay and of its webhook match it.
    wanted: bool
    # It has failed and waits for a retry.
    retrying: bool


async def resend(connection: Connection, project_id: str, webhook_id: str, event_id: str, now: Ms) -> int | None:
    """Send it at once: outside its customer's order if it is finished, and without waiting for its next retry. Returns
    the webhook's key. None: there is no such delivery."""
    webhook = await connection.fetchrow(_WEBHOOK, project_id, None, 1, webhook_id)
    found = await connection.fetchrow(_LOAD, project_id, event_id, webhook["key"]) if webhook is not None else None
    if webhook is None or found is None:
        return None
    key, customer, sequence = webhook["key"], found["customer_id"], found["sequence"]
    # Lock the lane first and then the delivery, as recording does, to avoid a deadlock.
    await connection.fetch(_LOCK, project_id, key, [customer], [0, sequence])
    await connection.fetchval(_HURRY, project_id, key, now, [customer], [sequence])
    queued = [customer], [sequence], [None], [None], [None]
    await connection.fetchval(_REQUEUE, project_id, key, None, now, *queued, webhook["dialect"])
    return int(key)


async def hurry_all(connection: Connection, project_id: str, webhook_key: int, now: Ms, limit: int) -> int:
    """Send what waits at a webhook now. Returns how many lanes waited, at most the limit."""
    await connection.execute(query("close_circuit"), webhook_key)
    return len(await connection.fetch(query("hurry_lanes"), project_id, webhook_key, now, limit))


# The last position of a project's feed; None when it is empty.
feed_end = finds_value(int, query("feed_head"))


async def committed_at(connection: Connection, project_id: str, position: int) -> Ms | None:
    """When the first event from this position on was committed."""
    row = await connection.fetchrow(query("events_of_project"), project_id, position - 1, 2**63 - 1, 1)
    return None if row is None else row["committed_at"]


# A replay of the events after the first position, up to the last. False when there is no such webhook.
start = returns_row(query("start_replay"))


@translates_errors
async def load_replay(database: Database, project_id: str, webhook_id: str, id: str) -> Replay | None:
    row = await database.pool.fetchrow(_REPLAYS, project_id, webhook_id, id, 1)
    if row is None:
        return None
    outcomes = await database.pool.fetchrow(query("outcomes_of_replay"), project_id, id)
    assert outcomes is not None, "an aggregate always has a row"
    return item_of(Replay, row, **outcomes)


async def recent_replays(database: Database, project_id: str, webhook_id: str, limit: int) -> list[Replay]:
    """Newest first."""
    return await fetch_all(database, Replay, _REPLAYS, project_id, webhook_id, None, limit)


# Whether there is an unfinished replay, locked or not. One statement, no transaction.
some_unfinished = translates_errors(fetches_value(bool, query("unfinished_replays")))
# The oldest unfinished replay that no other worker is working on, locked for this transaction.
take = fetches_one(TakenReplay, query("take_replay"))


async def next_events(connection: Connection, replay: TakenReplay, limit: int) -> list[ReplayedEvent]:
    """The next range of the feed, in order; shorter than the limit if it is the last."""
    # In another dialect the types are compared below, because the type alone does not decide.
    default = replay.dialect == Dialect.LATCHKEY
    rows = await connection.fetch(
        query("events_to_replay"),
        replay.project_id,
        replay.webhook_key,
        replay.position,
        replay.last_position,
        limit,
        replay.since_ms,
        replay.until_ms,
        replay.event_types if default else (),
        replay.environment,
        replay.webhook_event_types if default else (),
        replay.app_id,
        replay.status,
        not default,
    )
    return [
        item_of(
            ReplayedEvent,
            row,
            wanted=bool(row["wanted"]) and (default or _selected(replay, row)),
            retrying=bool(row["retrying"]),
        )
        for row in rows
    ]


def _selected(replay: TakenReplay, row: Record) -> bool:
    return all(
        selected(types, row["type"], continues=row["continues"], dialect=replay.dialect)
        for types in (replay.event_types, replay.webhook_event_types)
    )


async def requeue(
    connection: Connection, replay: TakenReplay, events: Sequence[ReplayedEvent], now: Ms
) -> tuple[int, int]:
    """Queue these events in their customers' order. Returns how many were not queued already, and how many of those
    that were had waited for a retry: they are sent now."""
    customers = sorted({event.customer_id for event in events})
    retrying = [event for event in events if event.retrying]
    sequences = [event.sequence for event in retrying]
    webhook = replay.project_id, replay.webhook_key
    await connection.fetch(_LOCK, *webhook, customers, [0, *sequences])
    hurried: int = await connection.fetchval(
        _HURRY, *webhook, now, [event.customer_id for event in retrying], sequences
    )
    columns = [
        [getattr(event, name) for event in events] for name in ("customer_id", "sequence", "id", "type", "committed_at")
    ]
    scheduled: int = await connection.fetchval(_REQUEUE, *webhook, replay.id, now, *columns, replay.dialect)
    return scheduled, hurried


# How far a replay is: its position, what was queued, when it ended, and what was hurried.
advance = executes(query("advance_replay"))


class StoppedReplay(Struct, frozen=True):
    webhook_key: int
    # Whether it was stopped before.
    again: bool


# None: there is no such replay.
stop = fetches_one(StoppedReplay, query("stop_replay"))
# Whether deliveries of a replay are still pending.
is_queued = translates_errors(fetches_value(bool, query("replay_is_queued")))


async def unqueue(connection: Connection, project_id: str, webhook_key: int, id: str, now: Ms, limit: int) -> int:
    """Take back what a stopped replay has queued."""
    back: int = await connection.fetchval(query("unqueue_replayed"), project_id, webhook_key, id, now, limit)
    await advance(connection, id, None, -back, None, 0)
    return back
