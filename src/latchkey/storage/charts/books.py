"""Writes of the roller: the facts of subjects, the tail, and the facts ahead. Computing a project's sums anew, in
steps: each locks the project's charts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from latchkey.storage.arrays import columns
from latchkey.storage.charts.progress import Roll
from latchkey.storage.charts.subjects import Row, decode
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


CLEARING, SUMMING = "clearing", "summing"

_BEGIN = query("begin_charts_rebuild")
_CLEAR = query("clear_charts")
_BEGIN_SUMMING = query("begin_charts_summing")
_NEXT = query("next_chart_subjects")
_FINISH = query("finish_charts_rebuild")
_CHOOSE = query("choose_chart_attributes")
_AGAIN = query("look_at_customers_again")


async def begin_rebuild(connection: Connection, project_id: str) -> None:
    await connection.execute(_BEGIN, project_id)


async def clear(connection: Connection, project_id: str, limit: int) -> int:
    """Deletes up to `limit` rows of each table. Returns how many there were."""
    count: int = await connection.fetchval(_CLEAR, project_id, limit)
    return count


async def begin_summing(connection: Connection, project_id: str) -> None:
    await connection.execute(_BEGIN_SUMMING, project_id)


async def next_subjects(
    connection: Connection, project_id: str, after: UUID, limit: int
) -> list[tuple[UUID, list[Row]]]:
    rows = await connection.fetch(_NEXT, project_id, after, limit)
    return [(row["subject"], decode(row["facts"])) for row in rows]


async def finish_rebuild(connection: Connection, project_id: str) -> None:
    await connection.execute(_FINISH, project_id)


async def choose_attributes(connection: Connection, project_id: str, names: Sequence[str]) -> None:
    """The caller has announced a change of the catalog."""
    await connection.execute(_CHOOSE, project_id, list(names))
    await connection.execute(_AGAIN, project_id)
