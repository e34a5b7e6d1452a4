"""Writes of the roller: the facts of subjects, the tail, and the facts ahead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

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


class Changes(NamedTuple):
    """Facts that are added or, with everything negative, taken away. Of each its project, the number of the project's
    batch and its place there, and then the fact."""

    past: list[tuple[str, int, int]]
    past_rows: list[Row]
    # Of facts that are ahead, after the project: their test clock, or "".
    ahead: list[tuple[str, str, int, int]]
    ahead_rows: list[Row]


async def write(
    connection: Connection,
    contributed: Sequence[Contribution],
    changes: Changes,
    rolled: Sequence[Roll],
) -> dict[str, int]:
    """One statement. Facts whose time has come move from `chart_ahead` to the tail. Returns how long the tails of
    `rolled` are now, by project."""
    rows = await connection.fetch(
        _WRITE,
        *columns(contributed, 4, (1, 3)),
        *columns(changes.past, 3),
        *columns(changes.past_rows, 13),
        *columns(changes.ahead, 4),
        *columns(changes.ahead_rows, 13),
        *columns([_stored(one) for one in rolled], 12, range(12)),
    )
    return {row["project_id"]: row["tail"] for row in rows}


def _stored(roll: Roll) -> tuple[Any, ...]:
    count = roll.count
    return (
        roll.project_id, roll.position, roll.rolled_to, count.counted, count.mark_id, count.mark_xid, count.marked_at,
        roll.passed_to, roll.batch, roll.dimension, roll.tail, roll.summed_to,
    )  # fmt: skip
