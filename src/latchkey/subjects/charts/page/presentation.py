"""A computed chart as its page shows it: headlines, picture, table."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.dashboard.drawing import picture as drawing
from latchkey.dashboard.drawing.picture import PLACES, Picture
from latchkey.dashboard.drawing.ranks import Rank, ranks
from latchkey.subjects.charts.page import figures as words
from latchkey.subjects.charts.rules.chart import ChartData, Series, Value
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
class Column:
    title: str
    # The place of its series in the picture; None if it is not drawn. 0 is the line over the bars.
    key: int | None


@dataclass(frozen=True, slots=True)
class Row:
    place: int
    label: str
    complete: bool
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    columns: tuple[Column, ...]
    # The newest first.
    rows: tuple[Row, ...]
    totals: tuple[str, ...]
    total_words: str
    averages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    headlines: tuple[Headline, ...]
    picture: Picture | None
    table: Table | None
    # How things stand now: horizontal bars instead of a picture over time.
    ranks: tuple[Rank, ...]
    # Drawn series that the picture has no room for.
    others: int
    # The dates of the period before: "2026-01-01 to 2026-01-31".
    before: str = ""


def shown(data: ChartData) -> Shown:
    if data.drawing in (Drawing.HEAT_MAP, Drawing.INTERVALS):
        return Shown(headlines(data), None, None, (), 0)
    if data.definition.is_snapshot:
        return Shown(headlines(data), None, table(data), ranked(data), 0)
    others = max(len(stacked_series(data)) - PLACES, 0)
    return Shown(headlines(data), pictured(data), table(data), (), others, _before_words(data))


def _before_words(data: ChartData) -> str:
    if data.previous is None or not data.previous.periods:
        return ""
    return f"{data.previous.periods[0].first} to {data.previous.periods[-1].last}"


def ranked(data: ChartData) -> tuple[Rank, ...]:
    return ranks(
        [(one.title, _numbers(one)[-1] if one.values else None) for one in stacked_series(data)],
        lambda value: words.said(value, data.unit, data.currency),
    )


def stacked_series(data: ChartData) -> list[Series]:
    """What the picture shows as series of their own."""
    over = line_over(data)
    return [one for one in data.drawn if one is not over]


def line_over(data: ChartData) -> Series | None:
    """The line over the others: the sum of a stack, or everything beside its segments."""
    broken_down = data.request.segment is not None
    return next((one for one in data.drawn if one.is_net or (broken_down and one.segment is None)), None)


def _compared(data: ChartData) -> list[Series]:
    """What is compared with the period before: the line over the others, or the only series. Comparing every part would
    be illegible."""
    over = line_over(data)
    series = stacked_series(data)
    return [over] if over else series if len(series) == 1 else []


def pictured(data: ChartData) -> Picture:
    resolution = data.request.resolution
    periods = [
        drawing.Period(tick, words.period(one, resolution), one.complete)
        for tick, one in zip(words.ticks(data.periods, resolution), data.periods, strict=True)
    ]
    before = {one.id: one for one in data.previous.series} if data.previous else {}

    def drawn(one: Series) -> drawing.Series:
        earlier = before.get(one.id) if one.id in compared else None
        return drawing.Series(
            one.title, _numbers(one), _fitted(_numbers(earlier), len(data.periods)) if earlier else ()
        )

    series = stacked_series(data)
    over = line_over(data)
    compared = {one.id for one in _compared(data)}
    return drawing.picture(
        data.definition.title,
        "lines" if data.drawing is Drawing.LINE else "bars",
        periods,
        [drawn(one) for one in series],
        lambda value: words.axis(value, data.unit, data.currency),
        lambda value: words.said(value, data.unit, data.currency),
        drawn(over) if over else None,
    )


def listed(data: ChartData) -> list[Series]:
    """The columns of the table. Broken down, every segment has its main measure; the file has the others too."""
    return [one for one in data.series if one.is_drawn or one.segment is None]


def table(data: ChartData) -> Table:
    over = line_over(data)
    places = {one.id: place for place, one in enumerate(stacked_series(data)[:PLACES], 1)}
    before = {one.id: one for one in data.previous.series} if data.previous else {}
    compared = {one.id for one in _compared(data)}
    columns: list[Column] = []
    values: list[tuple[Series, Unit]] = []
    for one in listed(data):
        key = places.get(one.id, 0 if one is over else None)
        columns.append(Column(one.title, key))
        values.append((one, one.unit))
        if one.id in compared and (earlier := before.get(one.id)):
            columns.append(Column(f"{one.title}, {BEFORE}", None))
            values.append((earlier, one.unit))
    rows = [
        Row(
            place,
            "Now" if data.definition.is_snapshot else words.period(period, data.request.resolution),
            data.definition.is_snapshot or period.complete,
            tuple(words.full(_at(one, place), unit, data.currency) for one, unit in values),
        )
        for place, period in enumerate(data.periods)
    ]
    return Table(
        tuple(columns),
        tuple(reversed(rows)),
        # What is as of now has one row, and no total below it.
        tuple(words.full(one.total, unit, data.currency) for one, unit in values if not data.definition.is_snapshot),
        _total_words(data, main_series(data)).capitalize(),
        tuple(words.full(one.average, unit, data.currency) for one, unit in values),
    )


def headlines(data: ChartData) -> tuple[Headline, ...]:
    before = {one.id: one for one in data.previous.series} if data.previous else {}
    whole = [one for one in data.series if one.segment is None]
    if data.definition.is_snapshot:
        # The bars have their numbers beside them.
        whole = [one for one in whole if not one.is_drawn]
    return tuple(_headline(data, one, before.get(one.id)) for one in whole[:MOST_HEADLINES])


def main_series(data: ChartData) -> Series | None:
    """The one number of a chart: the net, or the first series of everything."""
    whole = [one for one in data.series if one.segment is None and one.unit is data.unit]
    return next((one for one in whole if one.is_net), whole[0] if whole else None)


def headline(data: ChartData) -> Headline | None:
    """Of the main series, for cards."""
    main = main_series(data)
    if main is None:
        return None
    earlier = next((one for one in data.previous.series if one.id == main.id), None) if data.previous else None
    return _headline(data, main, earlier)


def _headline(data: ChartData, one: Series, before: Series | None) -> Headline:
    good = data.definition.name in FALLING_IS_GOOD and one.unit is Unit.SHARE
    moved, kind = "", ""
    if before is not None:
        moved, kind = words.change(one.total, before.total, one.unit, data.currency, falling_is_good=good)
    is_main = one is main_series(data)
    value = words.full(one.total, one.unit, data.currency)
    return Headline(one.title, value, _total_words(data, one), moved, kind if is_main else "")


def _total_words(data: ChartData, one: Series | None = None) -> str:
    if data.definition.is_snapshot:
        return "now"
    if data.definition.is_level:
        return "at the end"
    unit = one.unit if one else data.unit
    is_average = unit is Unit.SHARE or (data.definition.is_of_first_seen and one is main_series(data))
    return "overall" if is_average else "in total"


def _at(one: Series, place: int) -> Value:
    """The period before can have one period less: months differ in length."""
    return one.values[place] if place < len(one.values) else None


def _fitted(values: list[float | None], count: int) -> list[float | None]:
    return [*values, *[None] * count][:count]


def _numbers(one: Series) -> list[float | None]:
    return [words.number_of(value, one.unit) for value in one.values]
