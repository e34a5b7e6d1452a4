"""A computed chart as its page shows it: values as text, headlines, picture, table, heat map, estimates."""

import re
from collections.abc import Callable, Sequence
from datetime import date
from functools import cache
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from latchkey.dashboard import texts
from latchkey.dashboard.drawing import picture as drawing
from latchkey.dashboard.drawing.picture import PLACES, Picture
from latchkey.dashboard.drawing.ranks import Interval, Rank, intervals, ranks
from latchkey.dashboard.drawing.scale import heat
from latchkey.domain import formats as texts_formats
from latchkey.subjects.charts.render import in_units
from latchkey.subjects.charts.rules.chart import Cell, ChartData, ChartPeriod, Series, Value
from latchkey.subjects.charts.rules.compute import NOT_KNOWN
from latchkey.subjects.charts.rules.definition import CHOICES, Drawing, Unit
from latchkey.subjects.charts.rules.facts import Resolution
from latchkey.subjects.charts.rules.figures import full, headline, main_series, total_words
from latchkey.subjects.money.usecases import TITLES

_DAYS_OF_A_YEAR = 366
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def drawn_in_full(number: float, unit: Unit, currency: str | None) -> str:
    """A drawn number in full."""
    micros = number * 1_000_000 if unit is Unit.MONEY else number / 100 if unit is Unit.SHARE else number
    return full(micros, unit, currency)


def axis(value: float, unit: Unit, currency: str | None) -> str:
    """A drawn number, short: $12.5k, 40 %, −3."""
    minus, amount = ("−" if value < 0 else ""), abs(value)
    letter = ""
    for size, name in ((1_000_000_000, "bn"), (1_000_000, "M"), (1_000, "k")):
        if amount >= size:
            amount, letter = amount / size, name
            break
    text = f"{amount:,.0f}" if float(round(amount, 6)).is_integer() else f"{amount:,.2f}".rstrip("0").rstrip(".")
    if unit is Unit.SHARE:
        return f"{minus}{text} %"
    sign = _sign(currency) if unit is Unit.MONEY else ""
    return f"{minus}{sign}{text}{letter}"


def period_title(one: ChartPeriod, resolution: Resolution) -> str:
    """In full, for tables and tooltips."""
    return f"Week of {one.label}" if resolution is Resolution.WEEK else one.label


def ticks(periods: Sequence[ChartPeriod], resolution: Resolution) -> list[str]:
    """Short, for the axis. Over more than a year a day of the month would not say which year it is in."""
    with_year = bool(periods) and (periods[-1].last - periods[0].first).days > _DAYS_OF_A_YEAR
    labels = [period.label for period in periods]
    days = [date.fromisoformat(f"{label}-01" if len(label) == 7 else label) for label in labels]
    is_month = with_year or resolution is Resolution.MONTH
    months = [_MONTHS[day.month - 1] for day in days]
    return [f"{month} {d.year}" if is_month else f"{d.day} {month}" for d, month in zip(days, months, strict=True)]


@cache
def _sign(currency: str | None) -> str:
    """What stands before an amount: "$", or nothing for currencies that stand behind it."""
    found = re.match(r"\D*", texts_formats.money(1_000_000, currency))
    return found.group() if found else ""


# By dimension: the names of values.
_NAMES = {"store": TITLES, "duration": {choice.id: choice.title for choice in CHOICES["durations"]}}


def value_title(dimension: str, value: str) -> str:
    return _NAMES.get(dimension, {}).get(value, value) or NOT_KNOWN


def titled(data: ChartData) -> ChartData:
    """The same chart with stores and durations by their names."""
    dimension, previous = data.request.segment, data.previous
    if dimension not in _NAMES:
        return data
    if previous is not None:
        previous = replace(previous, series=tuple(_titled(dimension, one) for one in previous.series))
    return replace(data, series=tuple(_titled(dimension, one) for one in data.series), previous=previous)


def _titled(dimension: str, one: Series) -> Series:
    if not one.segment or one.is_other:
        return one
    name, colon, measure = one.title.partition(": ")
    return replace(one, title=value_title(dimension, one.segment) + colon + measure) if name == one.segment else one


# More headlines than this are no headlines.
MOST_HEADLINES = 6
BEFORE = "period before"


class TableColumn(Struct, frozen=True):
    title: str
    # The place of its series in the picture; None if it is not drawn. 0 is the line over the bars.
    key: int | None
    series: Series


class Presentation:
    def __init__(self, data: ChartData) -> None:
        self._data = data
        definition = data.definition
        whole = [series for series in data.series if series.segment is None]
        if definition.is_snapshot:
            # The bars have their numbers beside them.
            whole = [one for one in whole if not one.is_drawn]
        self.headlines = [headline(data, one) for one in whole[:MOST_HEADLINES]]
        self.columns = table_columns(data) if definition.has_series else []
        self.total_words = total_words(data, main_series(data))
        # How things stand now: horizontal bars instead of a picture over time.
        self.ranks: tuple[Rank, ...] = ()
        self.picture: Picture | None = None
        # Drawn series that the picture has no room for.
        self.others = 0
        # The dates of the period before: "2026-01-01 to 2026-01-31".
        self.before = ""
        if definition.is_snapshot:
            last = [(series.title, _numbers(series)[-1] if series.values else None) for series in stacked_series(data)]
            self.ranks = ranks(last, lambda value: drawn_in_full(value, data.unit, data.currency))
        elif definition.has_series:
            self.picture = pictured(data)
            self.others = max(len(stacked_series(data)) - PLACES, 0)
            if data.previous is not None and data.previous.periods:
                self.before = f"{data.previous.periods[0].first} to {data.previous.periods[-1].last}"

    def figure(self, value: Value, unit: Unit) -> str:
        return full(value, unit, self._data.currency)

    def period(self, period: ChartPeriod) -> str:
        return period_title(period, self._data.request.resolution)


def stacked_series(data: ChartData) -> list[Series]:
    """What the picture shows as series of their own."""
    over = line_over(data)
    return [series for series in data.drawn if series is not over]


def line_over(data: ChartData) -> Series | None:
    """The line over the others: the sum of a stack, or everything beside its segments."""
    broken_down = data.request.segment is not None
    return next((series for series in data.drawn if series.is_net or (broken_down and series.segment is None)), None)


def _compared(data: ChartData) -> dict[str, Series]:
    """The series of the period before that are shown, by id: of the line over the others, or of the only series.
    Comparing every part would be illegible."""
    over, series = line_over(data), stacked_series(data)
    ids = [one.id for one in ([over] if over else series if len(series) == 1 else [])]
    return {one.id: one for one in (data.previous.series if data.previous else ()) if one.id in ids}


def pictured(data: ChartData) -> Picture:
    resolution, count = data.request.resolution, len(data.periods)
    periods = [
        drawing.PicturePeriod(tick, period_title(one, resolution), one.complete)
        for tick, one in zip(ticks(data.periods, resolution), data.periods, strict=True)
    ]
    compared, over = _compared(data), line_over(data)

    def drawn(one: Series) -> drawing.DrawnSeries:
        earlier = compared.get(one.id)
        before = [*_numbers(earlier), *[None] * count][:count] if earlier else ()
        return drawing.DrawnSeries(one.title, _numbers(one), before)

    return drawing.picture(
        data.definition.title,
        "lines" if data.drawing is Drawing.LINE else "bars",
        periods,
        [drawn(series) for series in stacked_series(data)],
        lambda value: axis(value, data.unit, data.currency),
        lambda value: drawn_in_full(value, data.unit, data.currency),
        drawn(over) if over else None,
    )


def listed(data: ChartData) -> list[Series]:
    """The columns of the table. Broken down, every segment has its main measure; the file has the others too."""
    return [series for series in data.series if series.is_drawn or series.segment is None]


def table_columns(data: ChartData) -> list[TableColumn]:
    over, compared = line_over(data), _compared(data)
    places = {one.id: place for place, one in enumerate(stacked_series(data)[:PLACES], 1)}
    found: list[TableColumn] = []
    for series in listed(data):
        found.append(TableColumn(series.title, places.get(series.id, 0 if series is over else None), series))
        if earlier := compared.get(series.id):
            found.append(TableColumn(f"{series.title}, {BEFORE}", None, earlier))
    return found


def _numbers(one: Series) -> list[float | None]:
    return [in_units(value, one.unit) for value in one.values]


class Square(NamedTuple):
    words: str = ""
    # The value behind a share, as a hint.
    hint: str = ""
    # 0 to 10; None for a period that has not begun.
    level: int | None = None


def squares_of(data: ChartData) -> Callable[[Cell], Square]:
    """How each cell of a heat map is shown."""
    cells = [cell for row in data.heat_map.rows for cell in row.cells] if data.heat_map else []
    # Money is no share of anything: colours are relative to the largest value.
    largest = max((cell.value or 0 for cell in cells), default=0) or 1

    def square(cell: Cell) -> Square:
        value = full(cell.value, data.unit, data.currency)
        if cell.value is None and cell.share is None:
            return Square()
        if data.unit is Unit.MONEY:
            return Square(value, "", heat((cell.value or 0) / largest))
        if cell.share is None:
            # Of all cohorts together, before any of them is old enough.
            return Square("–", value)
        return Square(texts.percent(cell.share), value, heat(cell.share))

    return square


class Estimates(NamedTuple):
    """One thing that was measured, for each variant that has it."""

    title: str
    # Variant, value, its interval in words ("" where there is too little data), and its interval as it is drawn.
    variants: list[tuple[str, str, str, Interval | None]]
    # Where zero stands, in percent from the left; None if it is not in the picture.
    zero: float | None


def estimates_of(data: ChartData) -> list[Estimates]:
    measured = {
        "Conversion to paying": ("conversion_to_paying", Unit.SHARE),
        "Initial conversion": ("initial_conversion", Unit.SHARE),
        "Revenue per customer": ("revenue_per_customer", Unit.MONEY),
        "Difference in conversion to paying": ("conversion_difference", Unit.SHARE),
        "Difference in revenue per customer": ("revenue_difference", Unit.MONEY),
    }
    found = []
    for title, (name, unit) in measured.items():
        known = [(one.variant, about) for one in data.variants if (about := getattr(one, name)) is not None]
        drawn, zero = intervals([(estimate.low, estimate.value, estimate.high) for _, estimate in known])
        variants = []
        for (variant, estimate), picture in zip(known, drawn, strict=True):
            value, low, high = (full(one, unit, data.currency) for one in (estimate.value, estimate.low, estimate.high))
            has_interval = estimate.low is not None and estimate.high is not None
            variants.append((variant, value, f"{low} to {high}" if has_interval else "", picture))
        if variants:
            found.append(Estimates(title, variants, zero))
    return found
