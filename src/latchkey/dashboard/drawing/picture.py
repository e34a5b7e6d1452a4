"""A picture: axes, series, legend, and a sentence for those who do not see it."""

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from latchkey.dashboard.drawing.scale import Height, Label, bounds, labels, scale
from latchkey.dashboard.drawing.series import Bars, DrawnLine, Values, extent, line, path, stacked

Shape = Literal["lines", "bars"]
Said = Callable[[float], str]
# Colours, patterns and marks; further series stand in the table only.
PLACES = 12
# More bars than this are too narrow for a pattern.
PATTERNED = 92


class DrawnSeries(Struct, frozen=True):
    title: str
    values: Values
    # The period before, value for value; empty if there is no comparison.
    before: Values = ()


class PicturePeriod(Struct, frozen=True):
    # As the axis shows it ("12 Mar"), and in full ("2027-03-12").
    short: str
    full: str
    complete: bool = True


class Level(Struct, frozen=True):
    at: float
    words: str


class Key(Struct, frozen=True):
    """A line of the legend."""

    place: int
    title: str


class Picture(Struct, frozen=True):
    words: str
    shape: Shape
    count: int
    levels: tuple[Level, ...]
    labels: tuple[Label, ...]
    lines: tuple[DrawnLine, ...]
    bars: tuple[Bars, ...]
    # A line over the others: the sum of the bars, or the value of everything.
    over: DrawnLine | None
    # The period before, dashed: number of the series and path.
    before: tuple[tuple[int, str], ...]
    # From where on periods are not over, in percent from the left.
    open_from: float | None
    zero: float
    legend: tuple[Key, ...]
    patterned: bool
    # The title of the line over the others.
    over_title: str = ""


def picture(
    title: str,
    shape: Shape,
    periods: Sequence[PicturePeriod],
    series: Sequence[DrawnSeries],
    axis: Said,
    said: Said,
    over: DrawnSeries | None = None,
) -> Picture:
    """`axis` writes a value short, for the axis; `said` in full, for the sentence."""
    count = len(periods)
    shown = list(series[:PLACES])
    complete = [period.complete for period in periods]
    values = [drawn_series.values for drawn_series in shown]
    stack = extent(values, count) if shape == "bars" else (0.0, 0.0)
    plain = [
        value
        for drawn_series in (*shown, *([over] if over else []))
        for value in (*drawn_series.values, *drawn_series.before)
    ]
    alone = (
        [value for drawn_series in shown for value in drawn_series.before] if shape == "bars" and not over else plain
    )
    low, high = bounds([*alone, *stack])
    levels = scale(low, high)
    height = Height(levels)
    several = len(shown) > 1
    marks = max(count // 8, 1) if several else 0
    lines = [line(place, one, complete, height, area=not several, marks=marks) for place, one in enumerate(values, 1)]
    compared = [*enumerate(shown, 1), *([(0, over)] if over else [])]
    return Picture(
        words=summary(title, periods, over or shown[0], said) if shown else f"{title}: no data.",
        shape=shape,
        count=count,
        levels=tuple(Level(height(level), axis(level)) for level in reversed(levels)),
        labels=labels([period.short for period in periods]),
        lines=tuple(lines) if shape == "lines" else (),
        bars=stacked(values, complete, height) if shape == "bars" else (),
        over=line(0, over.values, complete, height, area=False, marks=max(count // 8, 1)) if over else None,
        before=tuple((place, path(one.before, height)) for place, one in compared if one.before),
        open_from=_open_from(complete),
        zero=height(0),
        legend=tuple(Key(place, one.title) for place, one in enumerate(shown, 1)),
        patterned=several and count <= PATTERNED,
        over_title=over.title if over else "",
    )


def summary(title: str, periods: Sequence[PicturePeriod], one: DrawnSeries, said: Said) -> str:
    known = [(value, period.full) for value, period in zip(one.values, periods, strict=True) if value is not None]
    if not known:
        return f"{title}: no data."
    top = max(known, key=lambda pair: pair[0])
    return (
        f"{title} from {known[0][1]} to {known[-1][1]}: first {said(known[0][0])}, last {said(known[-1][0])}, "
        f"highest {said(top[0])} ({top[1]})."
    )


def _open_from(complete: Sequence[bool]) -> float | None:
    """Where the last periods that are not over begin."""
    count = len(complete)
    first = count
    while first and not complete[first - 1]:
        first -= 1
    return round(100 * first / count, 2) if first < count else None
