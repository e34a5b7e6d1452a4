"""Sums of one segment, folded into one column of numbers for each kind and n, with one number for each period."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import accumulate
from operator import add
from typing import TypeAlias

from latchkey.domain.charts.chart import Period
from latchkey.domain.charts.computing.exchange import Exchange
from latchkey.domain.charts.computing.periods import index_of
from latchkey.domain.charts.fact import LEVELS, NO_MONEY, Kind, Money, plus
from latchkey.domain.charts.sums import Day, Resolution, Sum, day_of, period_of

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
        return sum_of(found) if found else [0] * length


def sum_of(columns: Sequence[Column]) -> Column:
    """The sum of columns of equal length, of which there is at least one. A chart by day adds up hundreds of them, so
    no line of Python runs for each number."""
    found = list(columns[0])
    for column in columns[1:]:
        found = list(map(add, found, column))
    return found


def fold(
    rows: Iterable[Sum],
    periods: Sequence[Period],
    resolution: Resolution,
    exchange: Exchange,
    segment_of: Callable[[Sum], str] | None = None,
) -> dict[str, Columns]:
    """By segment: the rows' own, or as a function says. The rows may be of days while the periods are longer. A
    breakdown by day has many thousands of rows, so the loop does little for each."""
    length = len(periods)
    place_of = _Places(periods, resolution)
    types = range(len(exchange.types))
    own_currency, places = exchange.currency, exchange.places
    is_gross = places == [0]
    found: dict[str, Columns] = {}
    flows: dict[tuple[str, Kind, int], tuple[Column, list[Column]]] = {}
    levels: dict[tuple[str, Key, str], list[tuple[int, int, Money]]] = defaultdict(list)
    for row in rows:
        kind, n, period, segment, currency, quantity, money = row
        if segment_of is not None:
            segment = segment_of(row)
        if kind in LEVELS:
            place = 0 if period is None else place_of[period] + 1
            levels[segment, (kind, n, 0), currency].append((place, quantity, money))
            continue
        assert period is not None, "only levels have something before the first period"
        place = place_of[period]
        known = flows.get((segment, kind, n))
        if known is None:
            known = flows[segment, kind, n] = [0] * length, [[0] * length for _ in types]
        known[0][place] += quantity
        if currency == own_currency:
            # As `shown` says, without a call for each row.
            micros, tax, commission, *_ = money
            if is_gross:
                known[1][0][place] += micros
                continue
            of_type = micros, micros - tax, micros - tax - commission
            for column, type in zip(known[1], places, strict=True):
                column[place] += of_type[type]
        elif currency:
            for column, amount in zip(known[1], exchange.shown(money, currency, period, quantity), strict=True):
                column[place] += amount
    for (segment, kind, n), (quantities, amounts) in flows.items():
        columns = found.setdefault(segment, Columns(length))
        columns.quantities[kind, n, 0] = quantities
        for type in types:
            columns.amounts[kind, n, type] = amounts[type]
    ends = [day_of(periods[0].first) - 1, *(day_of(one.last) for one in periods)] if periods else []
    for (segment, key, currency), steps in levels.items():
        _add_level(found.setdefault(segment, Columns(length)), key, currency, steps, ends, exchange)
    return found


class _Places(dict[Day, int]):
    """The place of the period that a day belongs to."""

    def __init__(self, periods: Sequence[Period], resolution: Resolution) -> None:
        super().__init__()
        self._starts = index_of(tuple(periods), resolution)
        self._resolution = resolution

    def __missing__(self, day: Day) -> int:
        self[day] = place = self._starts[period_of(day, self._resolution)]
        return place


def _add_level(
    columns: Columns,
    key: Key,
    currency: str,
    steps: Sequence[tuple[int, int, Money]],
    ends: Sequence[int],
    exchange: Exchange,
) -> None:
    """Adds up what one currency has at the end of each period, and converts it by the rate of that day."""
    if not currency or not exchange.converts(currency):
        _add_same(columns, key, currency, steps, exchange)
        return
    quantities = columns.quantities.setdefault(key, [0] * (columns.length + 1))
    amounts = columns.amounts.setdefault(key, [0] * (columns.length + 1))
    changes: dict[int, tuple[int, Money]] = {}
    for place, quantity, money in steps:
        known = changes.get(place)
        changes[place] = (quantity, money) if known is None else (known[0] + quantity, plus(known[1], money))
    running, running_money = 0, NO_MONEY
    for place, end in enumerate(ends):
        change = changes.get(place)
        if change is not None:
            running += change[0]
            running_money = plus(running_money, change[1])
        quantities[place] += running
        # Those left out are counted once, at the end.
        is_last = place == len(ends) - 1
        amounts[place] += exchange.shown(running_money, currency, end, running if is_last else 0)[0]


def _add_same(
    columns: Columns, key: Key, currency: str, steps: Sequence[tuple[int, int, Money]], exchange: Exchange
) -> None:
    """The same without rates: changes are converted as they are, and added up."""
    length = columns.length + 1
    quantities, amounts = [0] * length, [0] * length
    unconverted = 0
    for place, quantity, money in steps:
        quantities[place] += quantity
        if currency:
            amounts[place] += exchange.shown(money, currency, 0)[0]
            unconverted += money.unconverted
    if unconverted and columns.length:
        # Those left out are counted once, at the end.
        exchange.shown(NO_MONEY._replace(unconverted=unconverted), currency, 0, sum(quantities))
    for known, changes in ((columns.quantities, quantities), (columns.amounts, amounts)):
        levels = list(accumulate(changes))
        known[key] = sum_of([known[key], levels]) if key in known else levels


def added(all: Iterable[Columns], length: int) -> Columns:
    """The columns of several segments together."""
    quantities: dict[Key, list[Column]] = defaultdict(list)
    amounts: dict[Key, list[Column]] = defaultdict(list)
    for one in all:
        for mine, theirs in ((quantities, one.quantities), (amounts, one.amounts)):
            for key, column in theirs.items():
                mine[key].append(column)
    found = Columns(length)
    found.quantities = {key: sum_of(columns) for key, columns in quantities.items()}
    found.amounts = {key: sum_of(columns) for key, columns in amounts.items()}
    return found
