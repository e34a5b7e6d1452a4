"""A computed chart as its page shows it: headlines, picture, table, heat map, estimates."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from latchkey.dashboard import texts
from latchkey.dashboard.drawing import picture as drawing
from latchkey.dashboard.drawing.picture import PLACES, Picture
from latchkey.dashboard.drawing.ranks import Interval, Rank, intervals, ranks
from latchkey.dashboard.drawing.scale import heat
from latchkey.subjects.charts.page import figures
from latchkey.subjects.charts.page.figures import full
from latchkey.subjects.charts.rules.chart import Cell, ChartData, ChartPeriod, Series, Value
from latchkey.subjects.charts.rules.definition import Drawing, Unit

# Charts whose values are better when they fall.
FALLING_IS_GOOD = frozenset({"churn", "refund_rate"})
# More headlines than this are no headlines.
MOST_HEADLINES = 6
BEFORE = "period before"


@dataclass(frozen=True, slots=True)
class Headline:
    title: str
    value: str
    # What the value is: "in total", "at the end", "overall".
    words: str
    change: str
    kind: str


@dataclass(frozen=True, slots=True)
class TableColumn:
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
        self.total_words = _total_words(data, main_series(data))
        # How things stand now: horizontal bars instead of a picture over time.
        self.ranks: tuple[Rank, ...] = ()
        self.picture: Picture | None = None
        # Drawn series that the picture has no room for.
        self.others = 0
        # The dates of the period before: "2026-01-01 to 2026-01-31".
        self.before = ""
        if definition.is_snapshot:
            last = [(series.title, _numbers(series)[-1] if series.values else None) for series in stacked_series(data)]
            self.ranks = ranks(last, lambda value: figures.drawn_in_full(value, data.unit, data.currency))
        elif definition.has_series:
            self.picture = pictured(data)
            self.others = max(len(stacked_series(data)) - PLACES, 0)
            if data.previous is not None and data.previous.periods:
                self.before = f"{data.previous.periods[0].first} to {data.previous.periods[-1].last}"

    def figure(self, value: Value, unit: Unit) -> str:
        return figures.full(value, unit, self._data.currency)

    def period(self, period: ChartPeriod) -> str:
        return figures.period(period, self._data.request.resolution)


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
        drawing.PicturePeriod(tick, figures.period(one, resolution), one.complete)
        for tick, one in zip(figures.ticks(data.periods, resolution), data.periods, strict=True)
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
        lambda value: figures.axis(value, data.unit, data.currency),
        lambda value: figures.drawn_in_full(value, data.unit, data.currency),
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


def main_series(data: ChartData) -> Series | None:
    """The one number of a chart: the net, or the first series of everything."""
    whole = [series for series in data.series if series.segment is None and series.unit is data.unit]
    return next((one for one in whole if one.is_net), whole[0] if whole else None)


def headline(data: ChartData, one: Series) -> Headline:
    before = next((old for old in data.previous.series if old.id == one.id), None) if data.previous else None
    moved, kind = "", ""
    if before is not None:
        good = data.definition.name in FALLING_IS_GOOD and one.unit is Unit.SHARE
        moved, kind = figures.change(one.total, before.total, one.unit, data.currency, falling_is_good=good)
    value = figures.full(one.total, one.unit, data.currency)
    return Headline(one.title, value, _total_words(data, one), moved, kind if one is main_series(data) else "")


def _total_words(data: ChartData, one: Series | None) -> str:
    if data.definition.is_snapshot:
        return "now"
    if data.definition.is_level:
        return "at the end"
    unit = one.unit if one else data.unit
    is_average = unit is Unit.SHARE or (data.definition.is_of_first_seen and one is main_series(data))
    return "overall" if is_average else "in total"


def _numbers(one: Series) -> list[float | None]:
    return [figures.number_of(value, one.unit) for value in one.values]


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
        known = [
            (variant.variant, estimate) for variant in data.variants if (estimate := getattr(variant, name)) is not None
        ]
        drawn, zero = intervals([(estimate.low, estimate.value, estimate.high) for _, estimate in known])
        variants = []
        for (variant, estimate), picture in zip(known, drawn, strict=True):
            value, low, high = (full(one, unit, data.currency) for one in (estimate.value, estimate.low, estimate.high))
            has_interval = estimate.low is not None and estimate.high is not None
            variants.append((variant, value, f"{low} to {high}" if has_interval else "", picture))
        if variants:
            found.append(Estimates(title, variants, zero))
    return found
