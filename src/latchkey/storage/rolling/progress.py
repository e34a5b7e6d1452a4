"""Which projects have charts or customer lists that are behind their feeds, and the next batch of both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from latchkey.domain.instants import Ms
from latchkey.storage.charts import progress as charts
from latchkey.storage.customer_lists import progress as lists
from latchkey.storage.database import Connection, Record
from latchkey.storage.rolling.found import Count, Found, Seen
from latchkey.storage.sql import query

_TAKE_BEHIND = query("take_rolls_behind")
_BATCH = query("rolls_batch")


class Held(Struct, frozen=True):
    """The progress of a project, locked by the transaction that processes the next batch."""

    charts: charts.Roll
    lists: lists.Roll


class Wanted(Struct, frozen=True):
    """Events of a project after a position."""

    project_id: str
    position: int
    charts: bool
    lists: bool


class Batches(Struct, frozen=True):
    """What the next batch is about, by who wanted it. A customer that both want is the same object in both."""

    charts: list[charts.Batch]
    lists: list[lists.Batch]


async def take_behind(
    connection: Connection, after: str, limit: int, *, chores: bool, now: Ms, moment: Ms, tail_waits: Ms
) -> list[Held]:
    """Locks the progress of the next projects after `after` that are behind; those that another transaction holds are
    skipped. With `chores` also projects with customers to count, facts whose time has come, or a tail to fold."""
    rows = await connection.fetch(_TAKE_BEHIND, after, limit, chores, now, moment, tail_waits)
    return [Held(charts.roll_in(row), _list_roll(row)) for row in rows]


async def next_batches(connection: Connection, wanted: Sequence[Wanted], limit: int) -> Batches:
    """For each up to `limit` events and as many marks, which are deleted."""
    rows = await connection.fetch(
        _BATCH,
        [one.project_id for one in wanted],
        [one.position for one in wanted],
        [one.charts for one in wanted],
        [one.lists for one in wanted],
        limit,
    )
    found = Batches([], [])
    for row in rows:
        told, customers = row["told"] or (), _customers(row)
        seen = Seen(row["newest"], row["xid"], row["oldest_xid"])
        if row["charts"]:
            found.charts.append(_of_charts(row, told, customers, seen))
        if row["lists"]:
            found.lists.append(_of_lists(row, told, customers, seen))
    return found


def _of_charts(row: Record, told: Iterable[int], customers: dict[int, Found], seen: Seen) -> charts.Batch:
    marked = row["chart_marked"] or ()
    return charts.Batch(
        project_id=row["project_id"],
        catalog_version=row["catalog_version"],
        rates_version=row["rates_version"],
        events=row["events"],
        marks=len(marked),
        position=row["position"],
        head=row["head"],
        committed_at=row["committed_at"],
        issues=tuple(row["issues"] or ()),
        customers=tuple(customers[key] for key in dict.fromkeys((*told, *marked)) if key in customers),
        seen=seen,
    )


def _of_lists(row: Record, told: Iterable[int], customers: dict[int, Found], seen: Seen) -> lists.Batch:
    marked = row["list_marked"] or ()
    named = dict.fromkeys((*told, *marked))
    return lists.Batch(
        project_id=row["project_id"],
        events=row["events"],
        marks=len(marked),
        position=row["position"],
        head=row["head"],
        customers=tuple(customers[key] for key in named if key in customers),
        gone=tuple(key for key in named if key not in customers),
        seen=seen,
    )


def _customers(row: Record) -> dict[int, Found]:
    names = ("keys", "states", "last_seen", "countries", "platforms", "app_versions")
    columns = zip(*(row[name] or () for name in names), strict=True)
    return {key: Found(row["project_id"], key, *rest) for key, *rest in columns}


def _list_roll(row: Record) -> lists.Roll:
    count = Count(
        counted=row["list_counted"],
        mark_id=row["list_mark_id"],
        mark_xid=row["list_mark_xid"],
        marked_at=row["list_marked_at"],
    )
    return lists.Roll(row["project_id"], row["list_position"], count)
