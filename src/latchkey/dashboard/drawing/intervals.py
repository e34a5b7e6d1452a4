"""Estimates with their intervals on one horizontal scale, in percent from the left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Estimated = tuple[float | None, float | None, float | None]


@dataclass(frozen=True, slots=True)
class Interval:
    low: float
    value: float
    high: float


def intervals(estimates: Sequence[Estimated]) -> tuple[list[Interval | None], float | None]:
    """One for each estimate (None where nothing is known), and where zero stands if it is in the picture."""
    known = [number for one in estimates for number in one if number is not None]
    if not known:
        return [None] * len(estimates), None
    low, high = min(known), max(known)
    if low > 0 and low < high * 0.5:
        low = 0
    reach = (high - low) or abs(high) or 1
    low, high = low - reach * 0.04, high + reach * 0.04

    def at(value: float) -> float:
        return round(100 * (value - low) / (high - low), 2)

    drawn = [
        None
        if value is None
        else Interval(at(value if least is None else least), at(value), at(value if most is None else most))
        for least, value, most in estimates
    ]
    return drawn, at(0) if low <= 0 <= high else None
