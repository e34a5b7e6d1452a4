"""Sums of one segment, folded into one column of numbers for each kind and n, with one number for each period."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeAlias

from latchkey.domain.charts.chart import Period
from latchkey.domain.charts.computing.exchange import Exchange
from latchkey.domain.charts.computing.periods import index_of
from latchkey.domain.charts.fact import LEVELS, NO_MONEY, Kind, Money
from latchkey.domain.charts.summing import plus
from latchkey.domain.charts.sums import Resolution, Sum, day_of, period_of

Column: TypeAlias = list[int]
# The kind, n, and for amounts the place of the revenue type.
Key: TypeAlias = tuple[Kind, int, int]


class Columns:
    """Flows have a number for each period. Levels also have the number before the first period, at the front."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.quantities: dict[Key, Column] = {}
        self.amounts: dict[Key, Column] = {}

    def flow(self, kind: Kind, *ns: int) -> Column:
        """Quantities, over all n or only these."""
        return self._added(self.quantities, kind, ns, self.length)

    def flow_money(self, kind: Kind, *ns: int, type: int = 0) -> Column:
        return self._added(self.amounts, kind, ns, self.length, type)

    def level(self, kind: Kind, *ns: int) -> Column:
        """At the end of each period."""
        return self._added(self.quantities, kind, ns, self.length + 1)[1:]

    def level_money(self, kind: Kind, *ns: int) -> Column:
        return self._added(self.amounts, kind, ns, self.length + 1)[1:]

    def before(self, kind: Kind) -> Column:
        """The level at the start of each period."""
        return self._added(self.quantities, kind, (), self.length + 1)[:-1]

    def before_money(self, kind: Kind) -> Column:
        return self._added(self.amounts, kind, (), self.length + 1)[:-1]

    @staticmethod
    def _added(columns: dict[Key, Column], kind: Kind, ns: Collection[int], length: int, type: int = 0) -> Column:
        found = [
            column for (of, n, place), column in columns.items() if of is kind and place == type and (not ns or n in ns)
        ]
        return [sum(values) for values in zip(*found, strict=True)] if found else [0] * length


def fold(
    rows: Iterable[Sum],
    periods: Sequence[Period],
    resolution: Resolution,
    exchange: Exchange,
    segment_of: Callable[[Sum], str],
) -> dict[str, Columns]:
    """By segment. The rows may be of days while the periods are longer."""
    place_of = index_of(tuple(periods), resolution)
    found: dict[str, Columns] = {}
    levels: dict[tuple[str, Key, str], list[tuple[int, int, Money]]] = defaultdict(list)
    for row in rows:
        segment = segment_of(row)
        columns = found.setdefault(segment, Columns(len(periods)))
        key = row.kind, row.n, 0
        if row.kind in LEVELS:
            place = 0 if row.period is None else place_of[period_of(row.period, resolution)] + 1
            levels[segment, key, row.currency].append((place, row.quantity, row.money))
            continue
        assert row.period is not None, "only levels have something before the first period"
        place = place_of[period_of(row.period, resolution)]
        _column(columns.quantities, key, columns.length)[place] += row.quantity
        if row.currency:
            amounts = exchange.shown(row.money, row.currency, row.period, row.quantity)
            for type, amount in enumerate(amounts):
                _column(columns.amounts, (row.kind, row.n, type), columns.length)[place] += amount
    ends = [day_of(periods[0].first) - 1, *(day_of(one.last) for one in periods)] if periods else []
    for (segment, key, currency), steps in levels.items():
        _add_level(found[segment], key, currency, steps, ends, exchange)
    return found


def _add_level(
    columns: Columns,
    key: Key,
    currency: str,
    steps: Sequence[tuple[int, int, Money]],
    ends: Sequence[int],
    exchange: Exchange,
) -> None:
    """Adds up what one currency has at the end of each period, and converts it by the rate of that day."""
    quantities = _column(columns.quantities, key, columns.length + 1)
    amounts = _column(columns.amounts, key, columns.length + 1)
    changes: dict[int, tuple[int, Money]] = {}
    for place, quantity, money in steps:
        known = changes.get(place, (0, NO_MONEY))
        changes[place] = known[0] + quantity, plus(known[1], money)
    running, running_money = 0, NO_MONEY
    for place, end in enumerate(ends):
        if place in changes:
            running += changes[place][0]
            running_money = plus(running_money, changes[place][1])
        quantities[place] += running
        if currency:
            # Those left out are counted once, as of the last period.
            counted = running if place == len(ends) - 1 else 0
            amounts[place] += exchange.shown(running_money, currency, end, counted)[0]


def _column(columns: dict[Key, Column], key: Key, length: int) -> Column:
    return columns.setdefault(key, [0] * length)


def added(all: Iterable[Columns], length: int) -> Columns:
    """The columns of several segments together."""
    total = Columns(length)
    for one in all:
        for mine, theirs in ((total.quantities, one.quantities), (total.amounts, one.amounts)):
            for key, column in theirs.items():
                known = mine.get(key)
                mine[key] = list(column) if known is None else [a + b for a, b in zip(known, column, strict=True)]
    return total
