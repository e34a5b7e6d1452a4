"""Sums of one segment as columns, one number for each period, with amounts in the currency of display; and series from
columns.

What was paid in that currency counts as it was paid. Everything else goes through USD: the USD of the payment's own
day, divided by the rate of the day shown. What has no known amount in USD is left out and counted.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from fractions import Fraction
from functools import cache, partialmethod
from itertools import accumulate, compress
from operator import add, neg, sub
from typing import TypeAlias

from latchkey.domain.money.exchange_rates import Rates
from latchkey.domain.money.pinned_rates import rate_on
from latchkey.domain.purchases.purchase import USD
from latchkey.subjects.charts.rules.chart import ChartPeriod, LeftOut, Series
from latchkey.subjects.charts.rules.definition import Unit
from latchkey.subjects.charts.rules.facts import LEVELS, Day, Kind, Resolution, Run, day_of, period_of

# Of whole numbers.
_Ratio: TypeAlias = tuple[int, int]

REVENUE_TYPES = ("revenue", "revenue_net_of_taxes", "proceeds")


class ChartCurrency:
    """One chart's currency and revenue types. Remembers what it had to leave out."""

    def __init__(self, currency: str, rates: Rates, types: tuple[str, ...] = REVENUE_TYPES[:1]) -> None:
        self.currency = currency
        self.types = types
        # Of the types in REVENUE_TYPES.
        self._places = [REVENUE_TYPES.index(one) for one in types]
        self._is_gross = types == REVENUE_TYPES[:1]
        self._left_out = 0
        self._currencies: set[str] = set()
        self._rate = cache(lambda day: _ratio(rates, currency, day))

    def columns(
        self,
        money: Sequence[list[int]],
        currency: str,
        days: Sequence[Day],
        counted: Sequence[bool] | None = None,
    ) -> list[list[int]]:
        """Millionths of the chart's currency, one column for each of the types. `money` has the columns of a run;
        `counted` says which amounts are counted if they are left out, all of them without it."""
        if currency == self.currency:
            return self._chosen(money[:3])
        unconverted = money[6]
        if any(unconverted):
            payments = sum(map(abs, unconverted if counted is None else compress(unconverted, counted)))
            self._left_out += payments
            self._currencies |= {currency} if payments else set()
        usd = self._chosen(money[3:6])
        if self.currency == USD:
            return usd
        rates = list(map(self._rate, days))
        # The chosen type is often one of the others too.
        found = {place: _divided(column, rates) for place, column in dict(zip(self._places, usd, strict=True)).items()}
        return [found[place] for place in self._places]

    @property
    def left_out(self) -> LeftOut:
        return LeftOut(payments=self._left_out, currencies=tuple(sorted(self._currencies)))

    def _chosen(self, money: Sequence[list[int]]) -> list[list[int]]:
        gross, tax, commission = money
        if self._is_gross:
            return [gross]
        net = list(map(sub, gross, tax))
        of_type = gross, net, list(map(sub, net, commission))
        return [of_type[place] for place in self._places]


def _ratio(rates: Rates, currency: str, day: Day) -> _Ratio:
    found = rate_on(rates, currency, day)
    assert found is not None, "every currency of ISO 4217 has a reference rate"
    return Fraction(found.usd).as_integer_ratio()


def _divided(usd: Sequence[int], rates: Sequence[_Ratio]) -> list[int]:
    """To the nearest millionth, and to the even one of two that are as near. Charts by day have tens of thousands of
    amounts, so they are whole numbers, and no function is called for each of them but `divmod`."""
    found: list[int] = []
    for amount, (numerator, denominator) in zip(usd, rates, strict=True):
        # A half is added before it is rounded down, so a number in the middle has no rest.
        nearest, rest = divmod(2 * amount * denominator + numerator, 2 * numerator)
        found.append(nearest if rest or nearest % 2 == 0 else nearest - 1)
    return found


Column: TypeAlias = list[int]
# The kind, n, and the place of the revenue type; no place for quantities.
Key: TypeAlias = tuple[Kind, int, int | None]


class Columns:
    """Flows have a number for each period. Levels also have the number before the first period, at the front."""

    def __init__(self, length: int, numbers: dict[Key, Column] | None = None) -> None:
        self.length = length
        self.numbers: dict[Key, Column] = {} if numbers is None else numbers

    def flow(self, kind: Kind, *ns: int, type: int | None = None) -> Column:
        """Quantities, over all n or only these; with a place of the revenue types, money."""
        return self._added(kind, ns, type, self.length)

    def level(self, kind: Kind, *ns: int, type: int | None = None) -> Column:
        """At the end of each period."""
        return self._added(kind, ns, type, self.length + 1)[1:]

    def before(self, kind: Kind, type: int | None = None) -> Column:
        """The level at the start of each period."""
        return self._added(kind, (), type, self.length + 1)[:-1]

    flow_money, level_money = partialmethod(flow, type=0), partialmethod(level, type=0)
    before_money = partialmethod(before, type=0)

    def _added(self, kind: Kind, ns: Collection[int], type: int | None, length: int) -> Column:
        found = [
            column
            for (of, n, place), column in self.numbers.items()
            if of is kind and place == type and (not ns or n in ns)
        ]
        return sum_of(*found) if found else [0] * length

    def add(self, run: Run, places: list[int], ends: Sequence[Day], exchange: ChartCurrency) -> None:
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
        self._add((run.kind, run.n, None), quantities)
        if not run.currency:
            return
        if is_level:
            # Those left out are counted once, at the end.
            counted = [*[False] * self.length, bool(self.length)]
            money = [column(amounts) for amounts in run.money]
            converted = exchange.columns(money, run.currency, ends, counted)[:1]
        else:
            days = [day for day in run.periods if day is not None]
            found = exchange.columns(run.money, run.currency, days)
            converted = [column(amounts) for amounts in found]
        for type, amounts in enumerate(converted):
            self._add((run.kind, run.n, type), amounts)

    def _add(self, key: Key, more: Column) -> None:
        known = self.numbers.get(key)
        self.numbers[key] = more if known is None else sum_of(known, more)


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
    periods: Sequence[ChartPeriod],
    resolution: Resolution,
    exchange: ChartCurrency,
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
    found: dict[Key, list[Column]] = defaultdict(list)
    for columns in segments:
        for key, column in columns.numbers.items():
            found[key].append(column)
    return Columns(length, {key: sum_of(*columns) for key, columns in found.items()})


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
