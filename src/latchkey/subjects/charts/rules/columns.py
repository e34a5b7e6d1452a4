"""Sums of one segment, folded into one column of numbers for each kind and n, with one number for each period."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import accumulate
from operator import add
from typing import TypeAlias

from latchkey.subjects.charts.rules.chart import Period
from latchkey.subjects.charts.rules.chart_periods import index_of
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
        return sum_of(found) if found else [0] * length


def sum_of(columns: Sequence[Column]) -> Column:
    """The sum of columns of equal length, of which there is at least one. A chart by day adds up hundreds of them, so
    no line of Python runs for each number."""
    found = list(columns[0])
    for column in columns[1:]:
        found = list(map(add, found, column))
    return found


def spread(places: Iterable[int], numbers: Iterable[int], length: int) -> Column:
    """A column with these numbers at these places. Those at the same place are added up."""
    found = [0] * length
    for place, number in zip(places, numbers, strict=True):
        found[place] += number
    return found


def fold(
    runs: Iterable[Run],
    periods: Sequence[Period],
    resolution: Resolution,
    exchange: Exchange,
    segment_of: Callable[[int], str] | None = None,
) -> dict[str, Columns]:
    """By segment: the runs' own, or as a function says of their n. The runs may be of days while the periods are
    longer. A breakdown by day has many thousands of sums, so hardly a line of Python runs for each of them."""
    flows, levels = _Places(periods, resolution), _Places(periods, resolution, before=True)
    # Of what was before the first period, and of each of them.
    ends = [day_of(periods[0].first) - 1, *(day_of(one.last) for one in periods)] if periods else [0]
    found: dict[str, Columns] = {}
    for run in runs:
        segment = run.segment if segment_of is None else segment_of(run.n)
        columns = found.get(segment)
        if columns is None:
            columns = found[segment] = Columns(len(periods))
        if run.kind not in LEVELS:
            _add_flow(columns, run, flows, exchange)
        else:
            _add_level(columns, run, levels, ends, exchange)
    return found


class _Places:
    """Where the numbers of a run stand in columns. With `before` the first place is for what was before all periods."""

    def __init__(self, periods: Sequence[Period], resolution: Resolution, *, before: bool = False) -> None:
        self._known = _Known(periods, resolution, before)
        self._every = list(range(len(periods) + before))

    def of(self, run: Run) -> list[int]:
        return list(map(self._known.__getitem__, run.periods))

    def spread(self, places: list[int], numbers: Column) -> Column:
        return numbers if places == self._every else spread(places, numbers, len(self._every))


class _Known(dict[Day | None, int]):
    """The place of the period that a day belongs to."""

    def __init__(self, periods: Sequence[Period], resolution: Resolution, before: bool) -> None:
        super().__init__({None: 0} if before else {})
        self._starts = index_of(tuple(periods), resolution)
        self._resolution = resolution
        self._first = int(before)

    def __missing__(self, day: Day | None) -> int:
        assert day is not None, "only levels have something before the first period"
        self[day] = place = self._starts[period_of(day, self._resolution)] + self._first
        return place


def _add_flow(columns: Columns, run: Run, places: _Places, exchange: Exchange) -> None:
    kind, n, currency = run.kind, run.n, run.currency
    at = places.of(run)
    _add(columns.quantities, (kind, n, 0), places.spread(at, run.quantities))
    if currency:
        days = [day for day in run.periods if day is not None]
        for type, amounts in enumerate(exchange.columns(run.money, currency, days, run.quantities)):
            _add(columns.amounts, (kind, n, type), places.spread(at, amounts))


def _add_level(columns: Columns, run: Run, places: _Places, ends: Sequence[Day], exchange: Exchange) -> None:
    """Changes are added up, and what there is at the end of each period is converted by the rate of that day."""
    key = run.kind, run.n, 0
    at = places.of(run)
    quantities = list(accumulate(places.spread(at, run.quantities)))
    _add(columns.quantities, key, quantities)
    if not run.currency:
        return
    money = [list(accumulate(places.spread(at, one))) for one in run.money]
    # Those left out are counted once, at the end.
    counted = [*[False] * columns.length, bool(columns.length)]
    _add(columns.amounts, key, exchange.columns(money, run.currency, ends, quantities, counted)[0])


def _add(columns: dict[Key, Column], key: Key, more: Column) -> None:
    known = columns.get(key)
    columns[key] = more if known is None else sum_of([known, more])


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
