"""Charts by day: the positions of lines, bars and labels. Pure geometry; `chart.html` draws it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

WIDTH, HEIGHT = 640.0, 190.0
LEFT, RIGHT, TOP, BOTTOM = 58.0, 8.0, 10.0, 22.0
_INNER_WIDTH = WIDTH - LEFT - RIGHT
_INNER_HEIGHT = HEIGHT - TOP - BOTTOM
_STEPS = (1, 2, 2.5, 5, 10)

Kind = Literal["line", "bars"]
Said = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Tick:
    at: float
    words: str


@dataclass(frozen=True, slots=True)
class Bar:
    x: float
    y: float
    width: float
    height: float
    minus: bool


@dataclass(frozen=True, slots=True)
class Touch:
    """The column of one day: hovering shows the day and its value."""

    x: float
    width: float
    words: str


@dataclass(frozen=True, slots=True)
class Chart:
    title: str
    definition: str
    # A summary in one sentence, for screen readers.
    words: str
    line: str
    area: str
    bars: tuple[Bar, ...]
    levels: tuple[Tick, ...]
    days: tuple[Tick, ...]
    touches: tuple[Touch, ...]
    zero: float

    @property
    def width(self) -> int:
        return int(WIDTH)

    @property
    def height(self) -> int:
        return int(HEIGHT)


def chart(
    title: str, definition: str, dates: Sequence[str], values: Sequence[float], said: Said, kind: Kind = "line"
) -> Chart:
    """One value for each date; `said` formats a value."""
    levels = scale(min(values, default=0), max(values, default=0))
    low, high = levels[0], levels[-1]

    def y(value: float) -> float:
        return _round(TOP + _INNER_HEIGHT * (high - value) / (high - low))

    column = _INNER_WIDTH / max(len(values), 1)
    middles = [_round(LEFT + column * (place + 0.5)) for place in range(len(values))]
    points = [f"{x} {y(value)}" for x, value in zip(middles, values, strict=True)]
    line = "M" + "L".join(points) if points and kind == "line" else ""
    area = f"{line}L{middles[-1]} {y(low)}L{middles[0]} {y(low)}Z" if line else ""
    bars = tuple(_bars(values, column, y)) if kind == "bars" else ()
    touches = tuple(
        Touch(_round(LEFT + column * place), _round(column), f"{date}: {said(value)}")
        for place, (date, value) in enumerate(zip(dates, values, strict=True))
    )
    return Chart(
        title,
        definition,
        summary(title, dates, values, said),
        line,
        area,
        bars,
        tuple(Tick(y(level), said(level)) for level in levels),
        tuple(_days(dates, middles)),
        touches,
        y(0) if low <= 0 <= high else y(low),
    )


def scale(low: float, high: float) -> list[float]:
    """Three to six round levels from zero, or from below it, to at least the highest value."""
    low, high = min(low, 0), max(high, 0)
    if low == high:
        return [0, 1]
    rough = (high - low) / 4
    magnitude = 10 ** math.floor(math.log10(rough))
    steps = [one * magnitude for one in _STEPS if one * magnitude >= rough]
    if float(low).is_integer() and float(high).is_integer():
        # Counts are whole numbers.
        steps = [one for one in steps if float(one).is_integer()] or [1]
    step = steps[0]
    first, last = math.floor(low / step), math.ceil(high / step)
    return [place * step for place in range(first, last + 1)]


def summary(title: str, dates: Sequence[str], values: Sequence[float], said: Said) -> str:
    if not values:
        return f"{title}: nothing yet."
    top = max(range(len(values)), key=lambda place: values[place])
    return (
        f"{title} from {dates[0]} to {dates[-1]}: first {said(values[0])}, last {said(values[-1])}, "
        f"highest {said(values[top])} on {dates[top]}."
    )


def _bars(values: Sequence[float], column: float, y: Callable[[float], float]) -> list[Bar]:
    gap = min(2.0, column * 0.2)
    found = []
    for place, value in enumerate(values):
        if value:
            top, bottom = sorted((y(value), y(0)))
            x = _round(LEFT + column * place + gap / 2)
            found.append(Bar(x, top, _round(column - gap), _round(max(bottom - top, 0.5)), value < 0))
    return found


def _days(dates: Sequence[str], middles: Sequence[float]) -> list[Tick]:
    """As many dates as fit, including the first and the last."""
    if not dates:
        return []
    wanted = min(6, len(dates))
    places = sorted({round(number * (len(dates) - 1) / max(wanted - 1, 1)) for number in range(wanted)})
    form = slice(5, 10) if len(dates) <= 92 else slice(0, 7)
    return [Tick(middles[place], dates[place][form]) for place in places]


def _round(number: float) -> float:
    return round(number, 1)
