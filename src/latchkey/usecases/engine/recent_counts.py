"""Limits that need not be exact: counts in the current minute or day, in memory of this process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from latchkey.domain.instants import MINUTE, Ms

MOST_REMEMBERED = 50_000


class RecentCounts:
    """Forgets whoever was not counted for longest, so that it cannot grow without end."""

    def __init__(self, most: int = MOST_REMEMBERED, *, span: Ms = MINUTE) -> None:
        self._most = most
        self._span = span
        # By who, the number of the current span and the count in it.
        self._counts: OrderedDict[Hashable, tuple[Ms, int]] = OrderedDict()

    def count(self, who: Hashable, now: Ms, amount: int = 1) -> int:
        """Counts one more, or so many, and returns the count in this span."""
        this = now // self._span
        span, count = self._counts.pop(who, (0, 0))
        count = count + amount if span == this else amount
        self._counts[who] = this, count
        if len(self._counts) > self._most:
            self._counts.popitem(last=False)
        return count

    def within(self, now: Ms, *limits: tuple[Hashable, int]) -> bool:
        """Counts one more for each of these. False: one of them is over its limit."""
        over = [who for who, limit in limits if self.count(who, now) > limit]
        return not over


class PhoneLimit:
    def __init__(self, per_address: int) -> None:
        # 0 means no limit.
        self._per_address = per_address
        self._counts = RecentCounts()

    def wait_ms(self, app_id: str, per_user: int, app_user_id: str | None, address: str, now: Ms) -> Ms | None:
        """Counts a request. None: it is admitted; otherwise the time until the next minute begins."""
        count = self._counts.count
        over = self._per_address and count((app_id, address), now) > self._per_address
        if not over and app_user_id is not None:
            over = count((app_id, address, app_user_id), now) > per_user
        return MINUTE - now % MINUTE if over else None
