"""Round levels for an axis of values."""

from __future__ import annotations

import math
from collections.abc import Iterable

_STEPS = (1, 2, 2.5, 5, 10)


def scale(low: float, high: float) -> list[float]:
    """Two to seven round levels, from zero or below it to at least the highest value."""
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


def bounds(values: Iterable[float | None]) -> tuple[float, float]:
    """The lowest and the highest of the known values."""
    known = [value for value in values if value is not None]
    return min(known, default=0), max(known, default=0)


class Height:
    """Where a value stands, in percent from the top."""

    def __init__(self, levels: list[float]) -> None:
        self.low, self.high = levels[0], levels[-1]

    def __call__(self, value: float) -> float:
        return round(100 * (self.high - value) / (self.high - self.low), 2)
