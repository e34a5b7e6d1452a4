"""How many deliveries this worker may have under way: for each webhook, and in total."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

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
