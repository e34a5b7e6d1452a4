"""Sending again: one delivery, or (a replay) a range of a project's feed."""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import Struct

from latchkey.database.pool import Connection, Database, Record
from latchkey.database.sql import query
from latchkey.database.transient_errors import translates_errors
from latchkey.domain.events.customer_event import Dialect, selected
from latchkey.domain.instants import Ms
from latchkey.subjects.webhooks.rules import Replay, StartedReplay, Which

_WEBHOOK = query("list_webhooks")
_FIND = query("load_delivery")
_LOCK = query("lock_lanes")
_HURRY_ALL = query("hurry_lanes")
_HURRY = query("hurry_deliveries")
_CLOSE_CIRCUIT = query("close_circuit")
_FEED_HEAD = query("feed_head")
_EVENTS = query("events_of_project")
_START = query("start_replay")
_LIST = query("list_replays")
_OUTCOMES = query("outcomes_of_replay")
_TAKE = query("take_replay")
_UNFINISHED = query("unfinished_replays")
_STRETCH = query("events_to_replay")
_REQUEUE = query("requeue_deliveries")
_ADVANCE = query("advance_replay")
_STOP = query("stop_replay")
_UNQUEUE = query("unqueue_replayed")


@dataclass(frozen=True, slots=True)
class DeliveryKey:
    """Identifies a delivery."""

    project_id: str
    webhook_key: int
    customer_id: int
    sequence: int
    # Of the webhook.
    dialect: str


@dataclass(frozen=True, slots=True)
class ReplayOrder:
    id: str
    since_ms: Ms
    until_ms: Ms
    status: Which
    event_types: tuple[str, ...]
    # Positions in the project's feed: after `first_position`, up to `last_position`.
    first_position: int
    last_position: int


@dataclass(frozen=True, slots=True)
class TakenReplay:
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
    webhook_deleted: bool


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


async def find(connection: Connection, project_id: str, webhook_id: str, event_id: str) -> DeliveryKey | None:
    webhook = await connection.fetchrow(_WEBHOOK, project_id, None, 1, webhook_id)
    row = await connection.fetchrow(_FIND, project_id, event_id, webhook["key"]) if webhook is not None else None
    if webhook is None or row is None:
        return None
    return DeliveryKey(project_id, webhook["key"], row["customer_id"], row["sequence"], webhook["dialect"])


async def resend(connection: Connection, place: DeliveryKey, now: Ms) -> None:
    """Send it at once: outside its customer's order if it is finished, and without waiting for its next retry."""
    project_id, customer, key, sequence = place.project_id, place.customer_id, place.webhook_key, place.sequence
    # Lock the lane first and then the delivery, as recording does, to avoid a deadlock.
    await connection.fetch(_LOCK, project_id, key, [customer], [0, sequence])
    await connection.fetchval(_HURRY, project_id, key, now, [customer], [sequence])
    queued = [customer], [sequence], [None], [None], [None]
    await connection.fetchval(_REQUEUE, project_id, key, None, now, *queued, place.dialect)


async def hurry_all(connection: Connection, project_id: str, webhook_key: int, now: Ms, limit: int) -> int:
    """Send what waits at a webhook now. Returns how many lanes waited, at most the limit."""
    await connection.execute(_CLOSE_CIRCUIT, webhook_key)
    return len(await connection.fetch(_HURRY_ALL, project_id, webhook_key, now, limit))


async def feed_end(connection: Connection, project_id: str) -> int:
    """The last position of a project's feed; 0 when it is empty."""
    return await connection.fetchval(_FEED_HEAD, project_id) or 0


async def committed_at(connection: Connection, project_id: str, position: int) -> Ms | None:
    """When the first event from this position on was committed."""
    row = await connection.fetchrow(_EVENTS, project_id, position - 1, 2**63 - 1, 1)
    return None if row is None else row["committed_at"]


async def start(connection: Connection, project_id: str, webhook_id: str, replay: ReplayOrder, now: Ms) -> bool:
    """False when there is no such webhook."""
    started = await connection.fetchval(
        _START,
        project_id,
        webhook_id,
        replay.id,
        replay.since_ms,
        replay.until_ms,
        replay.status,
        replay.event_types,
        now,
        replay.first_position,
        replay.last_position,
    )
    return started is not None


@translates_errors
async def load(database: Database, project_id: str, webhook_id: str, id: str) -> Replay | None:
    row = await database.pool.fetchrow(_LIST, project_id, webhook_id, id, 1)
    if row is None:
        return None
    outcomes = await database.pool.fetchrow(_OUTCOMES, project_id, id)
    assert outcomes is not None, "an aggregate always has a row"
    return Replay(**{**dict(row), **dict(outcomes), "event_types": tuple(row["event_types"])})


async def recent(connection: Connection, project_id: str, webhook_id: str, limit: int) -> list[StartedReplay]:
    """Newest first."""
    rows = await connection.fetch(_LIST, project_id, webhook_id, None, limit)
    return [StartedReplay(**{**dict(row), "event_types": tuple(row["event_types"])}) for row in rows]


@translates_errors
async def some_unfinished(database: Database) -> bool:
    """Whether there is an unfinished replay, locked or not. One statement, no transaction."""
    found: bool = await database.pool.fetchval(_UNFINISHED)
    return found


async def take(connection: Connection) -> TakenReplay | None:
    """The oldest unfinished replay that no other worker is working on, locked for this transaction."""
    row = await connection.fetchrow(_TAKE)
    if row is None:
        return None
    return TakenReplay(
        id=row["id"],
        project_id=row["project_id"],
        webhook_key=row["webhook_key"],
        since_ms=row["since_ms"],
        until_ms=row["until_ms"],
        status=row["status"],
        event_types=tuple(row["event_types"]),
        position=row["position"],
        last_position=row["last_position"],
        environment=row["environment"],
        webhook_event_types=tuple(row["wanted_types"]),
        app_id=row["app_id"],
        dialect=row["dialect"],
        webhook_deleted=row["deleted_at"] is not None,
    )


async def next_events(connection: Connection, replay: TakenReplay, limit: int) -> list[ReplayedEvent]:
    """The next range of the feed, in order; shorter than the limit if it is the last."""
    # In another dialect the types are compared below, because the type alone does not decide.
    default = replay.dialect == Dialect.LATCHKEY
    rows = await connection.fetch(
        _STRETCH,
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
        ReplayedEvent(
            position=row["position"],
            customer_id=row["customer_id"],
            sequence=row["sequence"],
            id=row["id"],
            type=row["type"],
            committed_at=row["committed_at"],
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
    customers = sorted({one.customer_id for one in events})
    retrying = [one for one in events if one.retrying]
    sequences = [one.sequence for one in retrying]
    await connection.fetch(_LOCK, replay.project_id, replay.webhook_key, customers, [0, *sequences])
    hurried: int = await connection.fetchval(
        _HURRY,
        replay.project_id,
        replay.webhook_key,
        now,
        [one.customer_id for one in retrying],
        sequences,
    )
    scheduled: int = await connection.fetchval(
        _REQUEUE,
        replay.project_id,
        replay.webhook_key,
        replay.id,
        now,
        [one.customer_id for one in events],
        [one.sequence for one in events],
        [one.id for one in events],
        [one.type for one in events],
        [one.committed_at for one in events],
        replay.dialect,
    )
    return scheduled, hurried


async def advance(
    connection: Connection, replay_id: str, position: int, scheduled: int, hurried: int, finished_at: Ms | None
) -> None:
    await connection.execute(_ADVANCE, replay_id, position, scheduled, finished_at, hurried)


async def stop(connection: Connection, project_id: str, webhook_id: str, id: str, now: Ms) -> int | None:
    """The webhook's key. None: there is no such replay, or it was stopped before."""
    key: int | None = await connection.fetchval(_STOP, project_id, webhook_id, id, now)
    return key


async def unqueue(connection: Connection, project_id: str, webhook_key: int, id: str, now: Ms, limit: int) -> int:
    """Take back what a stopped replay has queued and nobody is sending."""
    back: int = await connection.fetchval(_UNQUEUE, project_id, webhook_key, id, now, limit)
    await connection.execute(_ADVANCE, id, None, -back, None, 0)
    return back
