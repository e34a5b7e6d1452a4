"""Sums as columns. A breakdown by day has tens of thousands of sums, and a Python object for each of them costs more
than reading them. So the storage answers with runs, and charts are computed from runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, repeat
from operator import add, sub
from typing import NamedTuple, TypeAlias

from latchkey.domain.charts.fact import NO_MONEY, Day, Kind, Money, Sum

# Kind, n, segment and currency.
Key: TypeAlias = tuple[Kind, int, str, str]


class Run(NamedTuple):
    """Sums that differ in their periods only, as columns of equal length. Columns are shared: do not change one."""

    kind: Kind
    n: int
    segment: str
    currency: str
    # As in `Sum`, in any order, none of them twice.
    periods: Sequence[Day | None]
    quantities: list[int]
    # In the order of the fields of `Money`. Empty: there is none.
    money: Sequence[list[int]] = ()

    @property
    def key(self) -> Key:
        return self[:4]

    def rows(self) -> Iterator[tuple[Day | None, int, Money]]:
        """The period, the quantity and the money of each sum."""
        money = map(Money._make, zip(*self.money, strict=True)) if self.money else repeat(NO_MONEY)
        # The last of them may have no end.
        return zip(self.periods, self.quantities, money, strict=False)


def sums_of(runs: Iterable[Run]) -> list[Sum]:
    return [
        Sum(run.kind, run.n, period, run.segment, run.currency, quantity, money)
        for run in runs
        for period, quantity, money in run.rows()
    ]


def runs_of(sums: Iterable[Sum]) -> list[Run]:
    """No two of the sums have the same kind, n, period, segment and currency."""
    found: dict[Key, list[Sum]] = {}
    for one in sums:
        found.setdefault((one.kind, one.n, one.segment, one.currency), []).append(one)
    return [
        Run(
            *key,
            [one.period for one in rows],
            [one.quantity for one in rows],
            list(map(list, zip(*(one.money for one in rows), strict=True))),
        )
        for key, rows in found.items()
    ]


def added(runs: Iterable[Run], less: Iterable[Run] = ()) -> list[Run]:
    """One run for each key: what the runs have together, less what others have. Sums in which everything is zero are
    left out."""
    found: dict[Key, tuple[list[Run], list[Run]]] = {}
    for one in runs:
        found.setdefault(one.key, ([], []))[0].append(one)
    for one in less:
        found.setdefault(one.key, ([], []))[1].append(one)
    made = (more[0] if len(more) == 1 and not gone else _sum(more, gone) for more, gone in found.values())
    return [one for one in made if one.periods]


def _sum(more: Sequence[Run], less: Sequence[Run]) -> Run:
    """Of runs with the same key, of which there is at least one."""
    key = (*more, *less)[0].key
    places: dict[Day | None, int] = {}
    for one in (*more, *less):
        for period in one.periods:
            places.setdefault(period, len(places))
    every = list(range(len(places)))
    has_money = any(one.money for one in (*more, *less))
    columns = [[0] * len(places) for _ in range(1 + len(NO_MONEY) * has_money)]
    for signed, operation in ((more, add), (less, sub)):
        for one in signed:
            at = list(map(places.__getitem__, one.periods))
            # Runs without money have fewer columns.
            for column, numbers in zip(columns, (one.quantities, *one.money), strict=False):
                more_of = numbers if at == every else spread(at, numbers, len(places))
                column[:] = map(operation, column, more_of)
    kept = list(map(any, zip(*columns, strict=True)))
    if not all(kept):
        columns = [list(compress(column, kept)) for column in columns]
    return Run(*key, list(compress(places, kept)), columns[0], columns[1:])


def spread(places: Iterable[int], numbers: Iterable[int], length: int) -> list[int]:
    """A column with these numbers at these places. Those at the same place are added up."""
    found = [0] * length
    for place, number in zip(places, numbers, strict=True):
        found[place] += number
    return found
