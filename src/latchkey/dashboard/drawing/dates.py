"""The labels below a picture: as many as fit, at three widths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# The most labels in a narrow, a middle and a wide picture. The style sheet shows rank 1 always, rank 2 and 3 from their
# width on.
MOST = (4, 7, 12)
# The most if some periods have none: the last label is then at the very edge, and takes its whole width before it.
FEWER = (3, 5, 9)
# A label this close to the right edge ends at the edge: in the middle of its point it would be cut off, and if it ended
# there, it would touch the label before it.
EDGE = 92.0


@dataclass(frozen=True, slots=True)
class Label:
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
