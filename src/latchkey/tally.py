"""A histogram without locks. The metrics library takes a lock for each number it changes, which is too slow for
something that counts every request and every delivery."""

from __future__ import annotations

from bisect import bisect_left


class Tally:
    """How many values fell into each bucket, and their sum."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def merge(self, other: Tally) -> None:
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.sum += other.sum

    def buckets(self) -> list[tuple[str, float]]:
        total = 0
        found: list[tuple[str, float]] = []
        for bound, count in zip((*self.bounds, "+Inf"), self.counts, strict=True):
            total += count
            found.append((str(bound), total))
        return found
