"""The tables behind the figures: the lines of each purchase and their sums by day, always written together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import NamedTuple
from uuid import UUID

from latchkey.domain.figures.lines import Line, PurchaseKey
from latchkey.domain.figures.tally import NOTHING, Tally
from latchkey.domain.instants import DAY
from latchkey.domain.purchases.purchase import Environment
from latchkey.storage.database import Connection
from latchkey.storage.figures import books
from latchkey.storage.figures.books import DayChange, PurchaseLine


class Difference(NamedTuple):
    """Lines to delete and lines to add, so that the tables match what is known now."""

    gone: list[PurchaseLine]
    new: list[PurchaseLine]

    def by_day(self) -> list[DayChange]:
        """The changes of the daily sums, sorted by key."""
        days: dict[tuple[Environment, int, str], Tally] = defaultdict(lambda: NOTHING)
        for _, (at, currency, environment, tally) in self.new:
            days[environment, at // DAY, currency] = days[environment, at // DAY, currency].plus(tally)
        for _, (at, currency, environment, tally) in self.gone:
            days[environment, at // DAY, currency] = days[environment, at // DAY, currency].minus(tally)
        return sorted(DayChange(*key, tally) for key, tally in days.items() if tally != NOTHING)


def difference(known: Mapping[UUID, set[Line]], now: Mapping[UUID, Iterable[Line]]) -> Difference:
    gone: list[PurchaseLine] = []
    new: list[PurchaseLine] = []
    for purchase, lines in now.items():
        before, after = known.get(purchase, set()), set(lines)
        gone.extend(PurchaseLine(purchase, line) for line in before - after)
        new.extend(PurchaseLine(purchase, line) for line in after - before)
    return Difference(gone, new)


async def write(connection: Connection, project_id: str, contributed: Mapping[PurchaseKey, Iterable[Line]]) -> None:
    """Replaces the lines of these purchases. The caller holds the lock on the project's `figure_rolls` row."""
    now = {pseudonym(key): lines for key, lines in contributed.items()}
    known = await books.lines_of(connection, project_id, now.keys())
    changed = difference(known, now)
    await books.delete_lines(connection, project_id, changed.gone)
    await books.add_lines(connection, project_id, changed.new)
    await books.add_to_days(connection, project_id, changed.by_day())


def pseudonym(key: PurchaseKey) -> UUID:
    """The id of a purchase in these tables. It stays the same when the purchase gets another owner or its owner is
    erased, and it does not reveal the store's id."""
    return UUID(bytes=blake2b("\0".join(key).encode(), digest_size=16).digest())
