"""Paths of lines, in the stretched square of 1000 by 1000, and their marks in percent. Bars, stacked from zero:
positive parts upwards, negative ones downwards. A line without axes, for cards and previews."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from latchkey.dashboard.drawing.scale import Height, bounds, middle

Values = Sequence[float | None]


class Point(Struct, frozen=True):
    x: float
    y: float


class DrawnLine(Struct, frozen=True):
    # Number of the series, from 1: its colour, pattern and mark.
    place: int
    solid: str
    # The part that leads into periods that are not over.
    dotted: str
    area: str
    marks: tuple[Point, ...]
    # Values between two gaps, which no line shows.
    lone: tuple[Point, ...]


def line(place: int, values: Values, complete: Sequence[bool], height: Height, *, area: bool, marks: int) -> DrawnLine:
    """`marks` is how many periods lie between two marks; 0 for none."""
    count = len(values)
    stretches = [stretch for stretch in runs(values) if len(stretch) > 1]
    solid_parts: list[str] = []
    dotted_parts: list[str] = []
    for stretch in stretches:
        # A step is dotted if the period it leads to is not over.
        for done, steps in _by_completeness(stretch, complete):
            (solid_parts if done else dotted_parts).append(_path(steps, values, height))
    shapes = [_path(stretch, values, height) + _closed(stretch, count, height) for stretch in stretches] if area else []
    points = {at: Point(middle(at, count), height(value)) for at, value in enumerate(values) if value is not None}
    marked = tuple(point for at, point in points.items() if marks and (count - 1 - at) % marks == 0)
    lone = tuple(points[stretch[0]] for stretch in runs(values) if len(stretch) == 1)
    return DrawnLine(place, "".join(solid_parts), "".join(dotted_parts), "".join(shapes), marked, lone)


def path(values: Values, height: Height) -> str:
    """All stretches of a line as one path."""
    return "".join(_path(stretch, values, height) for stretch in runs(values) if len(stretch) > 1)


def runs(values: Values) -> list[list[int]]:
    """Stretches of neighbouring known values."""
    found: list[list[int]] = []
    for at, value in enumerate(values):
        if value is None:
            continue
        if found and found[-1][-1] == at - 1:
            found[-1].append(at)
        else:
            found.append([at])
    return found


def _by_completeness(stretch: list[int], complete: Sequence[bool]) -> Iterator[tuple[bool, list[int]]]:
    part = [stretch[0]]
    done = complete[stretch[1]]
    for at in stretch[1:]:
        if complete[at] != done:
            yield done, part
            part, done = [part[-1]], complete[at]
        part.append(at)
    yield done, part


def _path(stretch: Sequence[int], values: Values, height: Height) -> str:
    count = len(values)
    points = (
        f"{middle(at, count) * 10:.1f} {height(value) * 10:.1f}" for at in stretch if (value := values[at]) is not None
    )
    return "M" + "L".join(points)


def _closed(stretch: Sequence[int], count: int, height: Height) -> str:
    """From the end of a stretch down to zero and back to its start."""
    zero = min(max(height(0), 0), 100) * 10
    return f"L{middle(stretch[-1], count) * 10:.1f} {zero:.1f}L{middle(stretch[0], count) * 10:.1f} {zero:.1f}Z"


# A part of at least this height is drawn, so that a small value is not mistaken for none. In percent.
THINNEST = 0.4


class Bar(Struct, frozen=True):
    x: float
    y: float
    width: float
    height: float
    # Of a period that is not over.
    open: bool


class Bars(Struct, frozen=True):
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


class Spark(Struct, frozen=True):
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
