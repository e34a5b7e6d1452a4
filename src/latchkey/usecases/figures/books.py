"""The tables behind the figures: the lines of each purchase and their sums by day, always written together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple
from uuid import UUID

from latchkey.domain.charts.facts.segments import PurchaseKey
from latchkey.domain.figures.lines import Line
from latchkey.domain.figures.tally import NOTHING, Tally
from latchkey.domain.instants import DAY
from latchkey.domain.purchases.purchase import Environment
from latchkey.storage.database import Connection
from latchkey.storage.figures import books
from latchkey.storage.figures.books import Booked, DayChange, PurchaseLine
from latchkey.storage.figures.progress import Roll


class Difference(NamedTuple):
    """Lines to delete and lines to add, so that the tables match what is known now."""

    gone: list[PurchaseLine]
    new: list[PurchaseLine]

    def by_day(self) -> list[DayChange]:
        """The changes of the daily sums, sorted by key."""
        days: dict[tuple[str, Environment, int, str], Tally] = defaultdict(lambda: NOTHING)
        for project_id, _, (at, currency, environment, tally) in self.new:
            key = project_id, environment, at // DAY, currency
            days[key] = days[key].plus(tally)
        for project_id, _, (at, currency, environment, tally) in self.gone:
            key = project_id, environment, at // DAY, currency
            days[key] = days[key].minus(tally)
        return sorted(DayChange(*key, tally) for key, tally in days.items() if tally != NOTHING)


def difference(known: Mapping[Booked, set[Line]], now: Mapping[Booked, Iterable[Line]]) -> Difference:
    gone: list[PurchaseLine] = []
    new: list[PurchaseLine] = []
    for purchase, lines in now.items():
        before, after = known.get(purchase, set()), set(lines)
        gone.extend(PurchaseLine(*purchase, line) for line in before - after)
        new.extend(PurchaseLine(*purchase, line) for line in after - before)
    return Difference(gone, new)


async def write(
    connection: Connection,
    contributed: Mapping[str, Mapping[PurchaseKey, Iterable[Line]]],
    rolled: Sequence[Roll] = (),
) -> None:
    """Replaces the lines of these purchases, by project, and stores the progress of projects. The caller has locked the
    `figure_rolls` rows of all these projects."""
    now = {(id, pseudonym(key)): lines for id, bought in contributed.items() for key, lines in bought.items()}
    changed = difference(await books.lines_of(connection, now.keys()), now)
    if changed.gone or changed.new or rolled:
        await books.write(connection, changed.gone, changed.new, changed.by_day(), rolled)


def pseudonym(key: PurchaseKey) -> UUID:
    """The id of a purchase in these tables. It stays the same when the purchase gets another owner or its owner is
    erased, and it does not reveal the store's id."""
    return UUID(bytes=blake2b("\0".join(key).encode(), digest_size=16).digest())
