"""Sums as columns. A breakdown by day has tens of thousands of sums, and a Python object for each of them costs more
than reading them. So the storage answers with runs, and charts are computed from runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from latchkey.domain.charts.fact import Day, Kind


class Run(NamedTuple):
    """Sums that differ in their periods only, as columns of equal length. Columns are shared: do not change one."""

    kind: Kind
    n: int
    segment: str
    currency: str
    # As in `Sum`, in any order, none of them twice.
    periods: Sequence[Day | None]
    quantities: list[int]
    # In the order of the fields of `Money`. Empty: there is none.
    money: Sequence[list[int]] = ()


def spread(places: Iterable[int], numbers: Iterable[int], length: int) -> list[int]:
    """A column with these numbers at these places. Those at the same place are added up."""
    found = [0] * length
    for place, number in zip(places, numbers, strict=True):
        found[place] += number
    return found
