"""Which webhooks may have something to send, as far as this worker knows: now, or at a later time."""

import asyncio
import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from latchkey.domain.instants import Ms


class Agenda:
    def __init__(self) -> None:
        # A dict for its order: webhooks that wait longest come first.
        self._now: dict[int, None] = {}
        # A heap. An entry that is not in `_soonest` is outdated; it causes one query that finds nothing.
        self._later: list[tuple[Ms, int]] = []
        self._soonest: dict[int, Ms] = {}
        # Webhooks whose time has come. Only the soonest of a webhook is kept, so when its next one is must be asked.
        self._fell_due: set[int] = set()
        self._changed = asyncio.Event()

    def add(self, keys: Iterable[int]) -> None:
        self._now.update(dict.fromkeys(keys))
        if self._now:
            self._changed.set()

    def add_later(self, key: int, at: Ms) -> None:
        known = self._soonest.get(key)
        if known is None or at < known:
            self._soonest[key] = at
            heapq.heappush(self._later, (at, key))
        self._changed.set()

    def turn(self, now: Ms) -> list[int]:
        """Remove and return the webhooks to query now; those that waited longest come first."""
        while self._later and self._later[0][0] <= now:
            at, key = heapq.heappop(self._later)
            if self._soonest.get(key) == at:
                del self._soonest[key]
            self._now.setdefault(key)
            self._fell_due.add(key)
        keys, self._now = list(self._now), {}
        return keys

    def fell_due(self) -> list[int]:
        """Remove and return the webhooks that were returned because their time had come."""
        keys, self._fell_due = list(self._fell_due), set()
        return keys

    def wake(self) -> None:
        """End the current `wait`."""
        self._changed.set()

    async def wait(self, now: Callable[[], Ms]) -> None:
        """Until there may be something to do: a webhook was added, or the next time has come."""
        if self._now:
            return
        seconds = max(0.0, (self._later[0][0] - now()) / 1000) if self._later else None
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass
        self._changed.clear()


# How many deliveries this worker may have under way: for each webhook, and in total.


# The most that one claim takes; the next follows at once.
BATCH = 500


class Capacity:
    """Counts what is claimed and not yet recorded.

    A webhook's limit applies over all workers; the claim statement enforces it. The counts here avoid claims that would
    get nothing.
    """

    def __init__(self, in_all: int, limit_of: Callable[[int], int]) -> None:
        self._in_all = in_all
        self._limit_of = limit_of
        self._under_way: Counter[int] = Counter()
        # Webhooks that may have more pending than they may send at once.
        self._held_back: set[int] = set()

    @property
    def holds_back(self) -> bool:
        """Some webhook waits for the end of others."""
        return bool(self._held_back)

    def budgets(self, keys: Sequence[int]) -> dict[int, int]:
        """How many deliveries to claim for each webhook. Near the process's limit each gets a little."""
        room = min(self._in_all - self._under_way.total(), BATCH)
        budgets: dict[int, int] = {}
        for place, key in enumerate(keys):
            share = max(1, room // (len(keys) - place))
            amount = min(self._limit_of(key) - self._under_way[key], share, room)
            if amount > 0:
                budgets[key] = amount
                room -= amount
            else:
                self._held_back.add(key)
        return budgets

    def claimed(self, budgets: Mapping[int, int], taken: Mapping[int, int]) -> list[int]:
        """The webhooks to query again at once: those that used up their budget."""
        again: list[int] = []
        for key, budget in budgets.items():
            got = taken.get(key, 0)
            if got == budget:
                again.append(key)
            elif self._under_way[key] + got >= self._limit_of(key):
                self._held_back.add(key)
        return again

    def begin(self, key: int) -> None:
        self._under_way[key] += 1

    def end(self, keys: Iterable[int]) -> set[int]:
        """These deliveries are finished; returns the webhooks that were held back and can continue."""
        self._under_way.subtract(keys)
        ready, self._held_back = self._held_back, set()
        return ready
