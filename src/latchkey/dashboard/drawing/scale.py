"""Round levels for an axis of values, the dates below a picture, and the colours of a heat map."""

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct

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


# Levels of colour above "nothing"; the style sheet has one class for each.
LEVELS = 10


def heat(share: float | None) -> int | None:
    """0 (nothing) to 10 (all); None for a cell without a value."""
    if share is None:
        return None
    return min(max(-(-round(share * 1000) // 100), 0), LEVELS)


# The most labels in a narrow, a middle and a wide picture. The style sheet shows rank 1 always, rank 2 and 3 from their
# width on.
MOST = (4, 7, 12)
# The most if some periods have none: the last label is then at the very edge, and takes its whole width before it.
FEWER = (3, 5, 9)
# A label this close to the right edge ends at the edge: in the middle of its point it would be cut off, and if it ended
# there, it would touch the label before it.
EDGE = 92.0


class Label(Struct, frozen=True):
    at: float
    words: str
    rank: int
    anchor: str


def labels(words: Sequence[str]) -> tuple[Label, ...]:
    """One for each period that has one. The newest period always has a label."""
    count = len(words)
    strides: list[int] = []
    for most, fewer in zip(reversed(MOST), reversed(FEWER), strict=True):
        # Each stride is a multiple of the one before: a label of rank 1 is one of rank 2 and 3 as well.
        stride = strides[-1] if strides else 1
        step = stride
        while -(-count // stride) > (most if stride == 1 else fewer):
            stride += step
        strides.append(stride)
    found = []
    for place in range(count):
        behind = count - 1 - place
        rank = next((3 - number for number, stride in reversed(list(enumerate(strides))) if behind % stride == 0), 0)
        if rank:
            at = middle(place, count)
            found.append(
                Label(100.0, words[place], rank, "end") if at > EDGE else Label(at, words[place], rank, "middle")
            )
    return tuple(found)


def middle(place: int, count: int) -> float:
    """The middle of a period's column, in percent from the left."""
    return round(100 * (place + 0.5) / max(count, 1), 2)
