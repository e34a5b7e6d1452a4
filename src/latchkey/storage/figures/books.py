"""The lines of each purchase, and their sums by day. `usecases/figures/books.py` keeps the two consistent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import NamedTuple
from uuid import UUID

from latchkey.domain.figures.lines import Line
from latchkey.domain.figures.tally import Tally
from latchkey.domain.purchases.purchase import Environment
from latchkey.storage.database import Connection
from latchkey.storage.figures.tallies import columns, tally_of
from latchkey.storage.sql import query

_LINES_OF = query("figure_lines_of")
_DELETE = query("delete_figure_lines")
_ADD = query("add_figure_lines")
_ADD_TO_DAYS = query("add_to_figure_days")


class PurchaseLine(NamedTuple):
    purchase: UUID
    line: Line


class DayChange(NamedTuple):
    """The change of one day's sum."""

    environment: Environment
    day: int
    currency: str
    tally: Tally


async def lines_of(connection: Connection, project_id: str, purchases: Collection[UUID]) -> dict[UUID, set[Line]]:
    """A purchase without lines is left out."""
    known: dict[UUID, set[Line]] = defaultdict(set)
    for row in await connection.fetch(_LINES_OF, project_id, list(purchases)):
        line = Line(row["at"], row["currency"], Environment(row["environment"]), tally_of(row))
        known[row["purchase"]].add(line)
    return known


async def delete_lines(connection: Connection, project_id: str, gone: Sequence[PurchaseLine]) -> None:
    if gone:
        await connection.execute(
            _DELETE,
            [project_id] * len(gone),
            [one.purchase for one in gone],
            [one.line.at for one in gone],
            [one.line.currency for one in gone],
        )


async def add_lines(connection: Connection, project_id: str, new: Sequence[PurchaseLine]) -> None:
    if new:
        await connection.execute(
            _ADD,
            project_id,
            [one.purchase for one in new],
            [one.line.at for one in new],
            [one.line.currency for one in new],
            [one.line.environment for one in new],
            *columns(one.line.tally for one in new),
        )


async def add_to_days(connection: Connection, project_id: str, changes: Sequence[DayChange]) -> None:
    """Rows are locked in the given order, which must be the same everywhere."""
    if changes:
        await connection.execute(
            _ADD_TO_DAYS,
            project_id,
            [one.environment for one in changes],
            [one.day for one in changes],
            [one.currency for one in changes],
            *columns(one.tally for one in changes),
        )
