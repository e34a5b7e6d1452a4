"""Counts in the current minute, in memory of this process, for limits that need not be exact."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from latchkey.domain.instants import MINUTE, Ms

MOST_REMEMBERED = 50_000


class MinuteCounts:
    """Forgets whoever was not counted for longest, so that it cannot grow without end."""

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        # By who, the current minute and the count in it.
        self._counts: OrderedDict[Hashable, tuple[Ms, int]] = OrderedDict()

    def count(self, who: Hashable, now: Ms) -> int:
        """Counts one more, and returns the count in this minute."""
        this = now // MINUTE
        minute, count = self._counts.pop(who, (0, 0))
        count = count + 1 if minute == this else 1
        self._counts[who] = this, count
        if len(self._counts) > self._most:
            self._counts.popitem(last=False)
        return count
