"""Bars in percent, stacked from zero: positive parts upwards, negative ones downwards; and a line without axes, for
cards and previews."""

from collections.abc import Sequence
from dataclasses import dataclass

from latchkey.dashboard.drawing.lines import Values, line
from latchkey.dashboard.drawing.scale import Height, bounds

# A part of at least this height is drawn, so that a small value is not mistaken for none. In percent.
THINNEST = 0.4


@dataclass(frozen=True, slots=True)
class Bar:
    x: float
    y: float
    width: float
    height: float
    # Of a period that is not over.
    open: bool


@dataclass(frozen=True, slots=True)
class Bars:
    # Number of the series, from 1.
    place: int
    bars: tuple[Bar, ...]


def stacked(series: Sequence[Values], complete: Sequence[bool], height: Height) -> tuple[Bars, ...]:
    count = len(complete)
    column = 100 / max(count, 1)
    # Narrow columns have narrow gaps.
    gap = column * (0.3 if count <= 31 else 0.2 if count <= 92 else 0)
    width = round(column - gap, 2)
    up, down = [0.0] * count, [0.0] * count
    found = []
    for place, values in enumerate(series, 1):
        parts = []
        for at, value in enumerate(values):
            if not value:
                continue
            heap = up if value > 0 else down
            start, end = heap[at], heap[at] + value
            heap[at] = end
            top, bottom = sorted((height(start), height(end)))
            tall = round(max(bottom - top, THINNEST), 2)
            y = top if value < 0 else round(bottom - tall, 2)
            parts.append(Bar(round(column * at + gap / 2, 2), y, width, tall, not complete[at]))
        found.append(Bars(place, tuple(parts)))
    return tuple(found)


def extent(series: Sequence[Values], count: int) -> tuple[float, float]:
    """The lowest and the highest point of the stacks."""
    down = [sum(min(values[at] or 0, 0) for values in series) for at in range(count)]
    up = [sum(max(values[at] or 0, 0) for values in series) for at in range(count)]
    return min(down, default=0), max(up, default=0)


@dataclass(frozen=True, slots=True)
class Spark:
    solid: str
    dotted: str
    area: str
    # Values without a neighbour, each as a line of no length: with round ends it is a dot.
    lone: str


def spark(values: Values, *, running: int = 1) -> Spark | None:
    """None if there is nothing to draw. The last `running` periods are not over."""
    low, high = bounds(values)
    known = sum(value is not None for value in values)
    if known < 2:
        return None
    # From zero, so that small changes look small. A little room above: the stroke has a width.
    low, high = min(low, 0), max(high, 0)
    reach = (high - low) or 1
    height = Height([low - reach * 0.06, high + reach * 0.06])
    complete = [at < len(values) - running for at in range(len(values))]
    drawn = line(1, values, complete, height, area=True, marks=0)
    lone = "".join(f"M{one.x * 10:.1f} {one.y * 10:.1f}h0" for one in drawn.lone)
    return Spark(drawn.solid, drawn.dotted, drawn.area, lone)
