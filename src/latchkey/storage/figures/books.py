"""The lines of each purchase, and their sums by day. `usecases/figures/books.py` keeps the two consistent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import repeat
from typing import Any, NamedTuple
from uuid import UUID

from latchkey.domain.figures.lines import Line
from latchkey.domain.figures.tally import Tally
from latchkey.domain.purchases.purchase import Environment
from latchkey.storage.database import Connection
from latchkey.storage.figures.progress import Roll
from latchkey.storage.figures.tallies import columns, tally_of
from latchkey.storage.sql import query

_LINES_OF = query("figure_lines_of")
_WRITE = query("write_figures")

# A purchase in the books: its project and its pseudonym.
Booked = tuple[str, UUID]


class PurchaseLine(NamedTuple):
    project_id: str
    purchase: UUID
    line: Line

    @property
    def key(self) -> tuple[str, UUID, int, str]:
        return self.project_id, self.purchase, self.line.at, self.line.currency


class DayChange(NamedTuple):
    """The change of one day's sum."""

    project_id: str
    environment: Environment
    day: int
    currency: str
    tally: Tally


async def lines_of(connection: Connection, purchases: Collection[Booked]) -> dict[Booked, set[Line]]:
    """A purchase without lines is left out."""
    known: dict[Booked, set[Line]] = defaultdict(set)
    if purchases:
        projects, ids = zip(*purchases, strict=True)
        for row in await connection.fetch(_LINES_OF, projects, ids):
            line = Line(row["at"], row["currency"], Environment(row["environment"]), tally_of(row))
            known[row["project_id"], row["purchase"]].add(line)
    return known


async def write(
    connection: Connection,
    gone: Iterable[PurchaseLine],
    new: Sequence[PurchaseLine],
    days: Sequence[DayChange],
    rolled: Sequence[Roll] = (),
) -> None:
    """One statement. A line in both `gone` and `new` is replaced. Days are locked in the given order, which must be the
    same everywhere."""
    kept = {one.key for one in new}
    await connection.execute(
        _WRITE,
        *_columns([one.key for one in gone if one.key not in kept], 4),
        *_columns([(*one.key, one.line.environment) for one in new], 5),
        *_tallies(one.line.tally for one in new),
        *_columns([one[:4] for one in days], 4),
        *_tallies(one.tally for one in days),
        *_columns([_stored(one) for one in rolled], 7),
    )


def _stored(roll: Roll) -> tuple[Any, ...]:
    count = roll.count
    return roll.project_id, roll.position, roll.rolled_to, count.counted, count.mark_id, count.mark_xid, count.marked_at


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> Iterable[Sequence[Any]]:
    return zip(*rows, strict=True) if rows else repeat((), width)


def _tallies(tallies: Iterable[Tally]) -> Iterable[Sequence[int]]:
    return list(columns(tallies)) or repeat((), len(Tally._fields))
