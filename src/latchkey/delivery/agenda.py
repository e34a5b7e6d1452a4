"""Which webhooks may have something to send, as far as this worker knows: now, or at a later moment."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from latchkey.domain.instants import Ms


class Agenda:
    def __init__(self) -> None:
        self._now: dict[int, None] = {}
        self._later: list[tuple[Ms, int]] = []
        self._soonest: dict[int, Ms] = {}

    def add(self, keys: Iterable[int]) -> None:
        self._now.update(dict.fromkeys(keys))

    def add_later(self, key: int, at: Ms) -> None:
        known = self._soonest.get(key)
        if known is None or at < known:
            self._soonest[key] = at
            heapq.heappush(self._later, (at, key))

    def turn(self, now: Ms) -> list[int]:
        """The webhooks to ask for now, taken off the agenda; those that waited longest first."""
        while self._later and self._later[0][0] <= now:
            at, key = heapq.heappop(self._later)
            if self._soonest.get(key) == at:
                del self._soonest[key]
            self._now.setdefault(key)
        keys, self._now = list(self._now), {}
        return keys

    def next_at(self) -> Ms | None:
        """When there is next something to do, if only time passes."""
        return self._later[0][0] if self._later else None

    def __bool__(self) -> bool:
        return bool(self._now)
