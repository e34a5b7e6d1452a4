"""Heat maps: a row for each cohort, a column for each later period."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from latchkey.domain.charts.chart import Cell, ChartRequest, HeatMap, HeatRow, Period, Value
from latchkey.domain.charts.computing.columns import Columns, added
from latchkey.domain.charts.computing.periods import today_of
from latchkey.domain.charts.definitions.definition import WINDOWS
from latchkey.domain.charts.definitions.drawing import Unit
from latchkey.domain.charts.fact import LIFETIMES, Kind
from latchkey.domain.charts.sums import REST, Day, day_of
from latchkey.domain.instants import DAY, Ms, add, parse_duration

# Later periods are not shown.
MOST_COLUMNS = 60
NOTHING = Cell(None, None, False)


def retention(request: ChartRequest, folded: Mapping[str, Columns], periods: Sequence[Period], now: Ms) -> HeatMap:
    length = parse_duration(request.selectors["duration"])
    everything = added(folded.values(), len(periods))
    # Many cohorts and segments ask for the same instants.
    begins = cache(lambda day, n: add(day * DAY, length, times=n))
    cohorts = _cohorts(everything, periods, begins, now)
    # Not the columns that no cohort has reached.
    columns = 1 + max((n for one in cohorts for n, cell in enumerate(one.cells) if cell.value is not None), default=0)
    if request.segment is None:
        rows = tuple(_row(one.period.label, one, columns) for one in cohorts)
    else:
        by_segment = {one: _cohorts(found, periods, begins, now) for one, found in folded.items()}
        by_size = sorted(by_segment, key=lambda one: (one == REST, -sum(row.size for row in by_segment[one]), one))
        rows = tuple(_together(_titled(segment), by_segment[segment], columns) for segment in by_size)
    titles = ("Start", *(f"Period {n}" for n in range(1, columns)))
    return HeatMap(Unit.COUNT, titles, rows, _together("All", cohorts, columns), "Subscriptions")


class _Cohort(NamedTuple):
    period: Period
    size: int
    cells: tuple[Cell, ...]


def _titled(segment: str) -> str:
    return "Other" if segment == REST else segment or "Not known"


def _cohorts(columns: Columns, periods: Sequence[Period], begins: Callable[[Day, int], Ms], now: Ms) -> list[_Cohort]:
    """`begins`: when the period n of a subscription begins, by the day of its first one."""
    most = max((n for kind, n, _ in columns.quantities if kind in (Kind.RETAINED, Kind.RETAINED_SOON)), default=0)
    none = [0] * columns.length
    paid = [columns.quantities.get((Kind.RETAINED, n, 0), none) for n in range(MOST_COLUMNS)]
    soon = [columns.quantities.get((Kind.RETAINED_SOON, n, 0), none) for n in range(MOST_COLUMNS)]
    found: list[_Cohort] = []
    for place, period in enumerate(periods):
        size = paid[0][place]
        cells: list[Cell] = []
        first, last = day_of(period.first), day_of(period.last)
        if not size:
            found.append(_Cohort(period, size, ()))
            continue
        for n in range(MOST_COLUMNS):
            kept, expected = paid[n][place], soon[n][place]
            if not kept and not expected and begins(first, n) > now:
                cells.append(NOTHING)
                if n > most:
                    break
                continue
            value = kept + expected
            cells.append(Cell(value, value / size, not expected and begins(last + 1, n) <= now))
        found.append(_Cohort(period, size, tuple(cells)))
    return found


def _row(label: str, cohort: _Cohort, columns: int) -> HeatRow:
    cells = (*cohort.cells, *[NOTHING] * columns)[:columns]
    return HeatRow(label, cohort.period.first, cohort.size, cells)


def _together(label: str, cohorts: Sequence[_Cohort], columns: int) -> HeatRow:
    """Values of all cohorts. A share is of those that are old enough for the period."""
    cells: list[Cell] = []
    for n in range(columns):
        reached = [(one.cells[n], one.size) for one in cohorts if n < len(one.cells) and one.cells[n].value is not None]
        if not reached:
            cells.append(NOTHING)
            continue
        over = [(cell.value or 0, size) for cell, size in reached if cell.complete]
        whole = sum(size for _, size in over)
        share = sum(value for value, _ in over) / whole if whole else None
        cells.append(Cell(sum(cell.value or 0 for cell, _ in reached), share, len(over) == len(reached)))
    return HeatRow(label, None, sum(one.size for one in cohorts), tuple(cells))


def cohort_explorer(request: ChartRequest, columns: Columns, periods: Sequence[Period], now: Ms) -> HeatMap:
    """Columns are lifetimes; each cell is what was paid, or who paid, within it."""
    measure = request.selectors["measure"]
    unit = Unit.COUNT if measure == "payers" else Unit.MONEY
    today = today_of(now)
    sizes = columns.flow(Kind.CUSTOMER)
    rows = [
        HeatRow(
            period.label,
            period.first,
            sizes[place],
            tuple(_lived(measure, columns, [place], sizes, n, _age(period, n, today)) for n in range(len(LIFETIMES))),
        )
        for place, period in enumerate(periods)
    ]
    total: list[Cell] = []
    for n in range(len(LIFETIMES)):
        places = [place for place, period in enumerate(periods) if _age(period, n, today) is not None]
        over = all(_age(periods[place], n, today) for place in places)
        total.append(_lived(measure, columns, places, sizes, n, over if places else None))
    together = HeatRow("All", None, sum(sizes), tuple(total))
    return HeatMap(unit, tuple(one.title for one in WINDOWS), tuple(rows), together, "New customers")


def _age(period: Period, n: int, today: int) -> bool | None:
    """Whether a lifetime is over for all customers of a period. None: it has begun for nobody."""
    lifetime, shorter = LIFETIMES[n], LIFETIMES[n - 1] if n else -1
    assert shorter is not None, "only the last lifetime has no end"
    if lifetime is not None and day_of(period.first) + shorter >= today:
        return None
    return lifetime is not None and day_of(period.last) + lifetime < today


def _lived(
    measure: str, columns: Columns, places: Sequence[int], sizes: Sequence[int], n: int, over: bool | None
) -> Cell:
    size = sum(sizes[place] for place in places)
    if over is None or not size:
        return NOTHING
    ns = range(n + 1)
    if measure == "payers":
        payers = columns.flow(Kind.SEEN_PAYER, *ns)
        count = sum(payers[place] for place in places)
        return Cell(count, count / size, over)
    revenue = columns.flow_money(Kind.SEEN_REVENUE, *ns)
    amount = sum(revenue[place] for place in places)
    value: Value = amount if measure == "ltv" else round(amount / size)
    return Cell(value, None, over)
