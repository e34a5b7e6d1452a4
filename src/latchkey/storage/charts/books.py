"""Writes of the roller: the facts of subjects, the tail, and the facts ahead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from latchkey.domain.instants import DAY
from latchkey.storage.arrays import columns
from latchkey.storage.charts.progress import Roll
from latchkey.storage.charts.subjects import Row
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_WRITE = query("write_charts")


class Contribution(NamedTuple):
    project_id: str
    subject: UUID
    # The number of its origin.
    origin: int
    facts: bytes


class Change(NamedTuple):
    """A fact that is added or, with everything negative, taken away."""

    project_id: str
    batch: int
    place: int
    # None: it is in the past. Otherwise the test clock, or "".
    clock: str | None
    row: Row


async def write(
    connection: Connection,
    contributed: Sequence[Contribution],
    changes: Sequence[Change],
    rolled: Sequence[Roll],
) -> dict[str, int]:
    """One statement. Facts whose time has come move from `chart_ahead` to the tail. Returns how long the tails of
    `rolled` are now, by project."""
    rows = await connection.fetch(
        _WRITE,
        *columns(contributed, 4, (0, 1, 3)),
        *columns([_past(one) for one in changes if one.clock is None], 16, (0, 6)),
        *columns([_ahead(one) for one in changes if one.clock is not None], 17, (0, 1, 8)),
        *columns([_stored(one) for one in rolled], 12, range(12)),
    )
    return {row["project_id"]: row["tail"] for row in rows}


def _past(one: Change) -> tuple[Any, ...]:
    kind, at, n, currency, dimension, quantity, *money = one.row
    return (
        one.project_id, kind, one.batch, one.place, dimension, n, currency, at // DAY, quantity,
        *(amount or None for amount in money),
    )  # fmt: skip


def _ahead(one: Change) -> tuple[Any, ...]:
    kind, at, n, currency, dimension, quantity, *money = one.row
    return (
        one.project_id, one.clock, at, one.batch, one.place, kind, dimension, n, currency, quantity,
        *(amount or None for amount in money),
    )  # fmt: skip


def _stored(roll: Roll) -> tuple[Any, ...]:
    count = roll.count
    return (
        roll.project_id, roll.position, roll.rolled_to, count.counted, count.mark_id, count.mark_xid, count.marked_at,
        roll.passed_to, roll.batch, roll.dimension, roll.tail, roll.summed_to,
    )  # fmt: skip
