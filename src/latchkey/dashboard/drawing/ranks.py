"""Values of one moment as horizontal bars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rank:
    # Its colour and pattern.
    place: int
    title: str
    words: str
    # In percent of the largest.
    width: float
    # Of all together: "12.5 %".
    share: str


def ranks(values: Sequence[tuple[str, float | None]], said: Callable[[float], str]) -> tuple[Rank, ...]:
    known = [(title, value or 0) for title, value in values]
    largest = max((abs(value) for _, value in known), default=0) or 1
    whole = sum(value for _, value in known)
    return tuple(
        Rank(
            place,
            title,
            said(value),
            round(100 * max(value, 0) / largest, 2),
            f"{100 * value / whole:.1f} %" if whole > 0 else "",
        )
        for place, (title, value) in enumerate(known, 1)
    )
