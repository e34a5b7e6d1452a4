"""Heat maps: a row for each cohort, a column for each later period."""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from latchkey.domain.instants import DAY, Ms, add, parse_duration
from latchkey.subjects.charts.rules.chart import Cell, ChartPeriod, ChartRequest, HeatMap, HeatRow
from latchkey.subjects.charts.rules.columns import Columns, added, sum_of
from latchkey.subjects.charts.rules.definition import WINDOWS, Unit
from latchkey.subjects.charts.rules.facts import LIFETIMES, REST, Day, Kind, day_of

# Later periods are not shown.
MOST_COLUMNS = 60
NOTHING = Cell(None, None, False)


def retention(request: ChartRequest, folded: Mapping[str, Columns], periods: Sequence[ChartPeriod], now: Ms) -> HeatMap:
    length = parse_duration(request.selectors["duration"])
    everything = added(folded.values(), len(periods))
    ages = _ages_of(periods, lambda day, n: add(day * DAY, length, times=n) <= now)
    cohorts = _Cohorts(everything, ages)
    # Not the columns that no cohort has reached.
    columns = 1 + max((n for n in range(MOST_COLUMNS) if cohorts.reached(n)), default=0)
    if request.segment is None:
        rows = tuple(
            HeatRow(period.label, period.first, cohorts.sizes[place], cohorts.row(place, columns))
            for place, period in enumerate(periods)
        )
    else:
        by_segment = {one: _Cohorts(found, ages) for one, found in folded.items()}
        by_size = sorted(by_segment, key=lambda one: (one == REST, -sum(by_segment[one].sizes), one))
        titles = {REST: "Other", "": "Not known"}
        rows = tuple(by_segment[one].together(titles.get(one, one), columns, one) for one in by_size)
    ages_titles = ("Start", *(f"Period {n}" for n in range(1, columns)))
    return HeatMap(Unit.COUNT, ages_titles, rows, cohorts.together("All", columns), "Subscriptions")


class _Age(NamedTuple):
    """Of the subscriptions that began in a period: how many of their own periods have begun for the first of them, and
    for all of them."""

    begun: int
    whole: int


def _ages_of(periods: Sequence[ChartPeriod], has_begun: Callable[[Day, int], bool]) -> list[_Age]:
    """`has_begun`: whether the period n has, of a subscription whose first one began on this day."""
    begun = MOST_COLUMNS
    known: dict[Day, int] = {}
    # The later the day, the fewer have begun, so each day goes on where the one before has stopped.
    for day in sorted({day for period in periods for day in (day_of(period.first), day_of(period.last) + 1)}):
        while begun and not has_begun(day, begun - 1):
            begun -= 1
        known[day] = begun
    return [_Age(known[day_of(period.first)], known[day_of(period.last) + 1]) for period in periods]


class _Cohorts:
    """The cohorts of one segment, one for each period; those without a subscription do not count."""

    def __init__(self, columns: Columns, ages: Sequence[_Age]) -> None:
        none = [0] * columns.length
        self._ages = ages
        self._soon = [columns.numbers.get((Kind.RETAINED_SOON, n, None), none) for n in range(MOST_COLUMNS)]
        paid = [columns.numbers.get((Kind.RETAINED, n, None), none) for n in range(MOST_COLUMNS)]
        self._values = [
            kept if soon is none else sum_of(kept, soon) for kept, soon in zip(paid, self._soon, strict=True)
        ]
        self.sizes = paid[0]
        # The places of cohorts that have subscriptions.
        self._filled = [place for place, size in enumerate(self.sizes) if size]

    def reached(self, n: int) -> list[int]:
        """The places of the cohorts that have a value for the period n."""
        values, soon, sizes = self._values[n], self._soon[n], self.sizes
        # The later the cohort, the fewer periods have begun.
        end = bisect_left(self._ages, True, key=lambda age: age.begun <= n)
        found = self._filled[: bisect_left(self._filled, end)]
        if any(values[end:]) or any(soon[end:]):
            found += [place for place in range(end, len(sizes)) if sizes[place] and (values[place] or soon[place])]
        return found

    def row(self, place: int, columns: int) -> tuple[Cell, ...]:
        size, (begun, whole) = self.sizes[place], self._ages[place]
        if not size:
            return (NOTHING,) * columns
        cells: list[Cell] = []
        for n in range(columns):
            value, soon = self._values[n][place], self._soon[n][place]
            has_value = begun > n or value or soon
            cells.append(Cell(value, value / size, not soon and whole > n) if has_value else NOTHING)
        return tuple(cells)

    def together(self, label: str, columns: int, segment: str | None = None) -> HeatRow:
        """Values of all cohorts. A share is of those that are old enough for the period."""
        return HeatRow(label, None, sum(self.sizes), tuple(map(self._cell, range(columns))), segment)

    def _cell(self, n: int) -> Cell:
        reached = self.reached(n)
        if not reached:
            return NOTHING
        values, soon, ages, sizes = self._values[n], self._soon[n], self._ages, self.sizes
        over = reached[: bisect_left(reached, bisect_left(ages, True, key=lambda age: age.whole <= n))]
        if any(soon):
            over = [place for place in over if not soon[place]]
        whole = sum(map(sizes.__getitem__, over))
        share = sum(map(values.__getitem__, over)) / whole if whole else None
        return Cell(sum(map(values.__getitem__, reached)), share, len(over) == len(reached))


def cohort_explorer(request: ChartRequest, columns: Columns, periods: Sequence[ChartPeriod], now: Ms) -> HeatMap:
    """Columns are lifetimes; each cell is what was paid, or who paid, within it."""
    measure = request.selectors["measure"]
    sizes = columns.flow(Kind.CUSTOMER)
    flow, kind = (columns.flow, Kind.SEEN_PAYER) if measure == "payers" else (columns.flow_money, Kind.SEEN_REVENUE)
    values = [flow(kind, *range(n + 1)) for n in range(len(LIFETIMES))]
    ages = [[_age(period, n, now // DAY) for period in periods] for n in range(len(LIFETIMES))]
    rows = tuple(
        HeatRow(
            period.label,
            period.first,
            sizes[place],
            tuple(_cell(measure, of[place], sizes[place], age[place]) for of, age in zip(values, ages, strict=True)),
        )
        for place, period in enumerate(periods)
    )
    total: list[Cell] = []
    for of, age in zip(values, ages, strict=True):
        places = [place for place, is_over in enumerate(age) if is_over is not None]
        is_over = all(age[place] for place in places) if places else None
        value, size = (sum(column[place] for place in places) for column in (of, sizes))
        total.append(_cell(measure, value, size, is_over))
    unit = Unit.COUNT if measure == "payers" else Unit.MONEY
    titles = tuple(window.title for window in WINDOWS)
    return HeatMap(unit, titles, rows, HeatRow("All", None, sum(sizes), tuple(total)), "New customers")


def _age(period: ChartPeriod, n: int, today: Day) -> bool | None:
    """Whether a lifetime is over for all customers of a period. None: it has begun for nobody."""
    lifetime, shorter = LIFETIMES[n], LIFETIMES[n - 1] if n else -1
    assert shorter is not None, "only the last lifetime has no end"
    if lifetime is not None and day_of(period.first) + shorter >= today:
        return None
    return lifetime is not None and day_of(period.last) + lifetime < today


def _cell(measure: str, value: int, size: int, is_over: bool | None) -> Cell:
    if is_over is None or not size:
        return NOTHING
    if measure == "payers":
        return Cell(value, value / size, is_over)
    return Cell(value if measure == "ltv" else round(value / size), None, is_over)
