"""A computed chart as its page shows it: headlines, picture, table."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.dashboard.drawing import picture as drawing
from latchkey.dashboard.drawing.picture import PLACES, Picture
from latchkey.dashboard.drawing.ranks import Rank, ranks
from latchkey.subjects.charts.page import figures
from latchkey.subjects.charts.rules.chart import ChartData, Period, Series, Value
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


class Shown:
    def __init__(self, data: ChartData) -> None:
        self._data = data
        definition = data.definition
        has_series = data.drawing not in (Drawing.HEAT_MAP, Drawing.INTERVALS)
        whole = [one for one in data.series if one.segment is None]
        if definition.is_snapshot:
            # The bars have their numbers beside them.
            whole = [one for one in whole if not one.is_drawn]
        self.headlines = [headline(data, one) for one in whole[:MOST_HEADLINES]]
        self.columns = table_columns(data) if has_series else []
        self.total_words = _total_words(data, main_series(data))
        # How things stand now: horizontal bars instead of a picture over time.
        self.ranks: tuple[Rank, ...] = ()
        self.picture: Picture | None = None
        # Drawn series that the picture has no room for.
        self.others = 0
        # The dates of the period before: "2026-01-01 to 2026-01-31".
        self.before = ""
        if definition.is_snapshot:
            last = [(one.title, _numbers(one)[-1] if one.values else None) for one in stacked_series(data)]
            self.ranks = ranks(last, lambda value: figures.said(value, data.unit, data.currency))
        elif has_series:
            self.picture = pictured(data)
            self.others = max(len(stacked_series(data)) - PLACES, 0)
            if data.previous is not None and data.previous.periods:
                self.before = f"{data.previous.periods[0].first} to {data.previous.periods[-1].last}"

    def figure(self, value: Value, unit: Unit) -> str:
        return figures.full(value, unit, self._data.currency)

    def period(self, period: Period) -> str:
        return figures.period(period, self._data.request.resolution)


def stacked_series(data: ChartData) -> list[Series]:
    """What the picture shows as series of their own."""
    over = line_over(data)
    return [one for one in data.drawn if one is not over]


def line_over(data: ChartData) -> Series | None:
    """The line over the others: the sum of a stack, or everything beside its segments."""
    broken_down = data.request.segment is not None
    return next((one for one in data.drawn if one.is_net or (broken_down and one.segment is None)), None)


def _compared(data: ChartData) -> dict[str, Series]:
    """The series of the period before that are shown, by id: of the line over the others, or of the only series.
    Comparing every part would be illegible."""
    over, series = line_over(data), stacked_series(data)
    ids = [one.id for one in ([over] if over else series if len(series) == 1 else [])]
    return {one.id: one for one in (data.previous.series if data.previous else ()) if one.id in ids}


def pictured(data: ChartData) -> Picture:
    resolution, count = data.request.resolution, len(data.periods)
    periods = [
        drawing.Period(tick, figures.period(one, resolution), one.complete)
        for tick, one in zip(figures.ticks(data.periods, resolution), data.periods, strict=True)
    ]
    compared, over = _compared(data), line_over(data)

    def drawn(one: Series) -> drawing.Series:
        earlier = compared.get(one.id)
        before = [*_numbers(earlier), *[None] * count][:count] if earlier else ()
        return drawing.Series(one.title, _numbers(one), before)

    return drawing.picture(
        data.definition.title,
        "lines" if data.drawing is Drawing.LINE else "bars",
        periods,
        [drawn(one) for one in stacked_series(data)],
        lambda value: figures.axis(value, data.unit, data.currency),
        lambda value: figures.said(value, data.unit, data.currency),
        drawn(over) if over else None,
    )


def listed(data: ChartData) -> list[Series]:
    """The columns of the table. Broken down, every segment has its main measure; the file has the others too."""
    return [one for one in data.series if one.is_drawn or one.segment is None]


def table_columns(data: ChartData) -> list[TableColumn]:
    over, compared = line_over(data), _compared(data)
    places = {one.id: place for place, one in enumerate(stacked_series(data)[:PLACES], 1)}
    found: list[TableColumn] = []
    for one in listed(data):
        found.append(TableColumn(one.title, places.get(one.id, 0 if one is over else None), one))
        if earlier := compared.get(one.id):
            found.append(TableColumn(f"{one.title}, {BEFORE}", None, earlier))
    return found


def main_series(data: ChartData) -> Series | None:
    """The one number of a chart: the net, or the first series of everything."""
    whole = [one for one in data.series if one.segment is None and one.unit is data.unit]
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
