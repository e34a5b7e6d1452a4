"""How far the figures of projects have processed their feeds, and the next batch."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection, Record
from latchkey.storage.figures.newcomers import Count, Seen
from latchkey.storage.sql import query

_PROGRESS = query("figures_progress")
_LOOK = query("look_at_figures")
_START = query("start_figures")
_TAKE_BEHIND = query("take_figures_behind")
_TAKE = query("take_figures")
_AWAIT = query("await_figures")
_BATCH = query("figures_batch")


class Progress(Struct, frozen=True):
    # The newest position of the feed.
    head: int
    # The last position that is in the figures, and when that event was committed.
    position: int
    rolled_to: Ms
    # Customers with keys up to this one are counted.
    counted: int


class Outlook(Struct, frozen=True):
    """What a look at all projects at once says."""

    # Some project has events or marks that are not in its figures.
    behind: bool
    # Some project's figures have not been started.
    unstarted: bool
    # The last key that any customer got.
    newest: int


class Roll(Struct, frozen=True):
    """The progress of a project, locked by the transaction that processes the next batch."""

    project_id: str
    position: int
    rolled_to: Ms
    count: Count


class Batch(Struct, frozen=True):
    """What a project's next batch is about."""

    project_id: str
    catalog_version: int
    rates_version: int
    # How many events and marks, up to the limit.
    events: int
    marks: int
    # Of the last event; None if there is none.
    position: int | None
    committed_at: Ms | None
    # The customers named by events and marks. Decoded one by one: a customer that cannot be decoded must not stop the
    # others. Merged and erased customers are left out.
    customers: tuple[tuple[int, bytes], ...]
    seen: Seen


async def load(connection: Connection, project_id: str) -> Progress | None:
    """None: there is no such project."""
    row = await connection.fetchrow(_PROGRESS, project_id)
    if row is None:
        return None
    return Progress(head=row["head"], position=row["position"], rolled_to=row["rolled_to"], counted=row["counted"])


async def look(connection: Connection) -> Outlook:
    row = await connection.fetchrow(_LOOK)
    assert row is not None, "sums always have a row"
    return Outlook(row["behind"], row["unstarted"], row["newest"])


async def start(connection: Connection, project_id: str | None = None) -> None:
    """Starts the figures of a project, or of all new ones."""
    await connection.execute(_START, project_id)


async def take_behind(
    connection: Connection, after: str, limit: int, *, newcomers: bool, now: Ms, moment: Ms
) -> list[Roll]:
    """Locks the figures of the next projects after `after` that are behind; those that another transaction holds are
    skipped. With `newcomers` also projects with customers to count whose last mark is older than `moment`."""
    return [_roll(row) for row in await connection.fetch(_TAKE_BEHIND, after, limit, newcomers, now, moment)]


async def hold(connection: Connection, project_id: str, *, wait: bool) -> Roll | None:
    """Locks the project's figures. Without `wait`: None if another transaction holds them."""
    take = _AWAIT if wait else _TAKE
    row = await connection.fetchrow(take, project_id)
    if row is None:
        await start(connection, project_id)
        row = await connection.fetchrow(take, project_id)
    return None if row is None else _roll(row)


async def next_batches(connection: Connection, held: Sequence[Roll], limit: int) -> list[Batch]:
    """For each project up to `limit` events and as many marks, which are deleted."""
    rows = await connection.fetch(_BATCH, [one.project_id for one in held], [one.position for one in held], limit)
    return [
        Batch(
            project_id=row["project_id"],
            catalog_version=row["catalog_version"],
            rates_version=row["rates_version"],
            events=row["events"],
            marks=row["marks"],
            position=row["position"],
            committed_at=row["committed_at"],
            customers=tuple(zip(row["keys"] or (), row["states"] or (), strict=True)),
            seen=Seen(row["newest"], row["xid"], row["oldest_xid"]),
        )
        for row in rows
    ]


def _roll(row: Record) -> Roll:
    return Roll(
        project_id=row["project_id"],
        position=row["position"],
        rolled_to=row["rolled_to"],
        count=Count(
            counted=row["counted"], mark_id=row["mark_id"], mark_xid=row["mark_xid"], marked_at=row["marked_at"]
        ),
    )
