"""A line without axes, for cards and previews: 1000 by 1000, stretched to where it stands."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.dashboard.drawing.lines import Values, line
from latchkey.dashboard.drawing.scale import Height, bounds


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
