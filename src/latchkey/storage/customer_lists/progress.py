"""How far the facets of projects have processed their feeds, and the next batch."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection, Record
from latchkey.storage.rolling.newcomers import Count, Seen, Stretch
from latchkey.storage.rolling.outlook import Outlook
from latchkey.storage.sql import query

_LOOK = query("look_at_facets")
_START = query("start_facets")
_TAKE_BEHIND = query("take_facets_behind")
_AWAIT = query("await_facets")
_BATCH = query("facets_batch")
_STRETCH = query("facets_stretch")
_FORGET = query("forget_facets")


class Roll(Struct, frozen=True):
    """The progress of a project, locked by the transaction that processes the next batch."""

    project_id: str
    position: int
    count: Count


class Row(Struct, frozen=True):
    """A customer as stored. Decoded one by one: a customer that cannot be decoded must not stop the others."""

    project_id: str
    key: int
    state: bytes
    last_seen_at: Ms
    country: str | None


class Batch(Struct, frozen=True):
    """What a project's next batch is about."""

    project_id: str
    # How many events and marks, up to the limit.
    events: int
    marks: int
    # Of the last event; where there were fewer than the limit, of the feed's head.
    position: int | None
    head: int
    customers: tuple[Row, ...]
    # Keys of customers that were named and no longer exist.
    gone: tuple[int, ...]
    seen: Seen


async def look(connection: Connection) -> Outlook:
    row = await connection.fetchrow(_LOOK)
    assert row is not None, "sums always have a row"
    return Outlook(row["behind"], row["unstarted"], row["newest"])


async def start(connection: Connection, project_id: str | None = None) -> None:
    """Starts the facets of a project, or of all new ones."""
    await connection.execute(_START, project_id)


async def take_behind(
    connection: Connection, after: str, limit: int, *, newcomers: bool, now: Ms, moment: Ms
) -> list[Roll]:
    """Locks the facets of the next projects after `after` that are behind; those that another transaction holds are
    skipped. With `newcomers` also projects with customers to walk to whose last mark is older than `moment`."""
    return [_roll(row) for row in await connection.fetch(_TAKE_BEHIND, after, limit, newcomers, now, moment)]


async def hold(connection: Connection, project_id: str) -> Roll | None:
    """Locks the project's facets. None: there is no such project."""
    row = await connection.fetchrow(_AWAIT, project_id)
    if row is None:
        await start(connection, project_id)
        row = await connection.fetchrow(_AWAIT, project_id)
    return None if row is None else _roll(row)


async def next_batches(connection: Connection, held: Sequence[Roll], limit: int) -> list[Batch]:
    """For each project up to `limit` events and as many marks, which are deleted."""
    rows = await connection.fetch(_BATCH, [one.project_id for one in held], [one.position for one in held], limit)
    return [_batch(row) for row in rows]


async def stretch(connection: Connection, stretches: Sequence[Stretch], limit: int) -> list[Row]:
    """Up to `limit` customers of each of these stretches, by key."""
    rows = await connection.fetch(
        _STRETCH,
        [one.project_id for one in stretches],
        [one.counted for one in stretches],
        [one.until for one in stretches],
        limit,
    )
    return [
        Row(row["project_id"], row["id"], row["state"], row["last_seen_at"], row["last_seen_country"]) for row in rows
    ]


async def forget(connection: Connection, project_id: str) -> None:
    """Deletes a project's facets; the roller makes them anew."""
    await connection.execute(_FORGET, project_id)


def _batch(row: Record) -> Batch:
    keys = row["keys"] or ()
    columns = (keys, row["states"] or (), row["last_seen"] or (), row["countries"] or ())
    return Batch(
        project_id=row["project_id"],
        events=row["events"],
        marks=row["marks"],
        position=row["position"],
        head=row["head"],
        customers=tuple(Row(row["project_id"], *one) for one in zip(*columns, strict=True)),
        gone=tuple(set(row["named"]) - set(keys)),
        seen=Seen(row["newest"], row["xid"], row["oldest_xid"]),
    )


def _roll(row: Record) -> Roll:
    return Roll(
        project_id=row["project_id"],
        position=row["position"],
        count=Count(
            counted=row["counted"], mark_id=row["mark_id"], mark_xid=row["mark_xid"], marked_at=row["marked_at"]
        ),
    )
