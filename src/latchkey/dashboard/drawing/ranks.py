"""Horizontal bars: values of one moment, and estimates with their intervals."""

from collections.abc import Callable, Sequence

from msgspec import Struct


class Rank(Struct, frozen=True):
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


Estimated = tuple[float | None, float | None, float | None]


class Interval(Struct, frozen=True):
    low: float
    value: float
    high: float


def intervals(estimates: Sequence[Estimated]) -> tuple[list[Interval | None], float | None]:
    """One for each estimate (None where nothing is known), and where zero stands if it is in the picture."""
    known = [number for estimate in estimates for number in estimate if number is not None]
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
