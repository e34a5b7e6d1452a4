"""Sums of one segment as columns: for each kind and n, one number for each period. And series from columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from itertools import accumulate
from operator import add, neg
from typing import TypeAlias

from latchkey.subjects.charts.rules.chart import Period, Series
from latchkey.subjects.charts.rules.definition import Unit
from latchkey.subjects.charts.rules.exchange import Exchange
from latchkey.subjects.charts.rules.facts import LEVELS, Day, Kind, Resolution, Run, day_of, period_of

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
        return sum_of(*found) if found else [0] * length

    def add(self, run: Run, places: list[int], ends: Sequence[Day], exchange: Exchange) -> None:
        """`places` are those of the run's numbers: 0 is before the first period. Levels are added up, and what there is
        at the end of each period is converted by the rate of that day."""
        is_level = run.kind in LEVELS
        every = range(0 if is_level else 1, self.length + 1)
        is_whole = places == list(every)

        def column(numbers: Column) -> Column:
            if not is_whole:
                numbers = _spread(places, numbers, self.length + 1)[every.start :]
            return list(accumulate(numbers)) if is_level else numbers

        quantities = column(run.quantities)
        _add(self.quantities, (run.kind, run.n, 0), quantities)
        if not run.currency:
            return
        if is_level:
            # Those left out are counted once, at the end.
            counted = [*[False] * self.length, bool(self.length)]
            money = [column(amounts) for amounts in run.money]
            converted = exchange.columns(money, run.currency, ends, quantities, counted)[:1]
        else:
            days = [day for day in run.periods if day is not None]
            found = exchange.columns(run.money, run.currency, days, run.quantities)
            converted = [column(amounts) for amounts in found]
        for type, amounts in enumerate(converted):
            _add(self.amounts, (run.kind, run.n, type), amounts)


def _add(columns: dict[Key, Column], key: Key, more: Column) -> None:
    known = columns.get(key)
    columns[key] = more if known is None else sum_of(known, more)


def _spread(places: Iterable[int], numbers: Iterable[int], length: int) -> Column:
    """A column with these numbers at these places. Those at the same place are added up."""
    found = [0] * length
    for place, number in zip(places, numbers, strict=True):
        found[place] += number
    return found


def sum_of(first: Column, *others: Column) -> Column:
    """Of columns of equal length. A chart by day has hundreds of them, so no line of Python runs for each number."""
    found = first
    for column in others:
        found = list(map(add, found, column))
    return found


def negative(column: Column) -> Column:
    return list(map(neg, column))


def fold(
    runs: Iterable[Run],
    periods: Sequence[Period],
    resolution: Resolution,
    exchange: Exchange,
    segment_of: Callable[[int], str] | None = None,
) -> dict[str, Columns]:
    """By segment: the runs' own, or as a function says of their n. The runs may be of days while the periods are
    longer. A breakdown by day has many thousands of sums, so hardly a line of Python runs for each of them."""
    starts = {period_of(day_of(period.first), resolution): place for place, period in enumerate(periods, 1)}
    # Of what was before the first period, and of each of them.
    ends = [day_of(periods[0].first) - 1, *(day_of(period.last) for period in periods)] if periods else [0]

    @cache
    def place_of(day: Day | None) -> int:
        return 0 if day is None else starts[period_of(day, resolution)]

    found: dict[str, Columns] = {}
    for run in runs:
        segment = run.segment if segment_of is None else segment_of(run.n)
        columns = found.get(segment)
        if columns is None:
            columns = found[segment] = Columns(len(periods))
        columns.add(run, list(map(place_of, run.periods)), ends, exchange)
    return found


def added(segments: Iterable[Columns], length: int) -> Columns:
    """The columns of several segments together."""
    quantities: dict[Key, list[Column]] = defaultdict(list)
    amounts: dict[Key, list[Column]] = defaultdict(list)
    for columns in segments:
        for mine, theirs in ((quantities, columns.quantities), (amounts, columns.amounts)):
            for key, column in theirs.items():
                mine[key].append(column)
    found = Columns(length)
    found.quantities = {key: sum_of(*columns) for key, columns in quantities.items()}
    found.amounts = {key: sum_of(*columns) for key, columns in amounts.items()}
    return found


def flow(
    id: str, title: str, values: Column, unit: Unit = Unit.COUNT, *, is_drawn: bool = True, is_net: bool = False
) -> Series:
    return Series(id, title, unit, tuple(values), sum(values), is_drawn, is_net)


def level(id: str, title: str, values: Column, unit: Unit = Unit.COUNT, *, is_drawn: bool = True) -> Series:
    return Series(id, title, unit, tuple(values), values[-1] if values else 0, is_drawn)


def share(id: str, title: str, parts: Column, wholes: Column) -> Series:
    values = tuple(part / whole if whole > 0 else None for part, whole in zip(parts, wholes, strict=True))
    whole = sum(wholes)
    return Series(id, title, Unit.SHARE, values, sum(parts) / whole if whole > 0 else None)


def per(id: str, title: str, amounts: Column, counts: Column) -> Series:
    values = tuple(round(a / n) if n > 0 else None for a, n in zip(amounts, counts, strict=True))
    count = sum(counts)
    return Series(id, title, Unit.MONEY, values, round(sum(amounts) / count) if count > 0 else None)
