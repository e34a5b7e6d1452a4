"""Paths of lines, in the stretched square of 1000 by 1000, and their marks in percent."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from latchkey.dashboard.drawing.scale import Height, middle

Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class DrawnLine:
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
