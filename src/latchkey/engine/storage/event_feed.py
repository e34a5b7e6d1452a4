"""The feed of events, oldest first, as the API lists it, and which events exist already."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from latchkey.database.pool import Connection, Database, Executor
from latchkey.database.rows import item_of
from latchkey.database.sql import affected, query
from latchkey.database.transient_errors import translates_errors
from latchkey.domain.events.customer_event import EventDelivery
from latchkey.domain.instants import Ms
from latchkey.domain.partitions import PARTS_OF_EVENTS

_AFTER_EVENT = query("events_after_event")

# The part of each event that a reader may name next, for those that are not in the first partition. Only a hint: an
# event that is not found there is looked for everywhere.
_parts: dict[tuple[str, str], int] = {}
_REMEMBERED = 4096
# After every position.
_END = 2**63 - 1


async def position_of(connection: Connection, project_id: str, event_id: str) -> int | None:
    row = await connection.fetchrow(query("event_by_id"), project_id, event_id)
    return None if row is None else row["position"]


async def bodies(connection: Connection, project_id: str, after: int, limit: int) -> list[bytes]:
    """Event bodies exactly as delivered, after a position."""
    return [row["body"] for row in await connection.fetch(query("events_of_project"), project_id, after, _END, limit)]


async def bodies_after(connection: Connection, project_id: str, event_id: str, limit: int) -> list[bytes] | None:
    """The same after an event. None: there is no such event."""
    part = _parts.get((project_id, event_id), 0)
    rows = await connection.fetch(_AFTER_EVENT, project_id, event_id, limit, part)
    if not rows and part:
        rows = await connection.fetch(_AFTER_EVENT, project_id, event_id, limit, 0)
    _remember(project_id, rows)
    return [row["body"] for row in rows if row["body"] is not None] if rows else None


def _remember(project_id: str, rows: Sequence[Any]) -> None:
    """The next page begins after the last of these rows, or after the one before: the last may only say that there is
    more."""
    for row in rows[-2:]:
        _parts.pop((project_id, row["id"]), None)
        if row["partition"] >= PARTS_OF_EVENTS:
            _parts[project_id, row["id"]] = row["partition"]
    while len(_parts) > _REMEMBERED:
        del _parts[next(iter(_parts))]


async def bodies_of_customer(
    connection: Connection, project_id: str, customer_key: int, after: int, limit: int
) -> list[bytes]:
    """The same for one customer, with the events of customers that were merged into this one."""
    return [
        row["body"]
        for row in await connection.fetch(query("events_of_customer"), project_id, customer_key, after, limit)
    ]


async def known(connection: Any, asked: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
    """Which of these (project, event id) exist already."""
    if not asked:
        return set()
    rows = await connection.fetch(query("known_events"), [project for project, _ in asked], [id for _, id in asked])
    return {(row["project_id"], row["id"]) for row in rows}


async def keep(connection: Connection, project_id: str, traces: Mapping[str, str], at: Ms) -> None:
    """`traces`: a `traceparent` by the id of the event."""
    await connection.execute(query("keep_event_traces"), project_id, list(traces), list(traces.values()), at)


@translates_errors
async def load(database: Database, events: Collection[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """By project and id of the event; those without a trace are left out."""
    asked = [project for project, _ in events], [id for _, id in events]
    rows = await database.hot.fetch(query("load_event_traces"), *asked)
    return {(row[0], row[1]): row[2] for row in rows}


@translates_errors
async def prune(database: Database, before: Ms, *, at_once: int = 5_000) -> None:
    while affected(await database.execute(query("prune_event_traces"), before, at_once)):
        pass


async def deliveries(
    connection: Executor, project_id: str, events: Sequence[tuple[int, int]]
) -> dict[str, list[EventDelivery]]:
    """Of events by customer key and sequence: by event id; an event without deliveries is left out."""
    rows = await connection.fetch(
        query("deliveries_of_events"), project_id, [key for key, _ in events], [number for _, number in events]
    )
    by_event: dict[str, list[EventDelivery]] = defaultdict(list)
    for row in rows:
        by_event[row["event_id"]].append(item_of(EventDelivery, row))
    return by_event
