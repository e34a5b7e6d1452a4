"""How many deliveries this worker may have under way: for each webhook, and in all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

# One claim takes no more than this; the next follows at once.
BATCH = 500


class Capacity:
    """Counts what is claimed and not yet recorded.

    A webhook's limit holds over all workers, and the claim statement keeps it. What is counted here saves claims that
    would get nothing.
    """

    def __init__(self, in_all: int, limit_of: Callable[[int], int]) -> None:
        self._in_all = in_all
        self._limit_of = limit_of
        self._under_way: Counter[int] = Counter()
        # Webhooks that may have more waiting than they may send at once.
        self._held_back: set[int] = set()

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
        """The webhooks to ask for again at once: those that used up their budget."""
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
        """These deliveries are done with; gives the webhooks that were held back and can go on."""
        self._under_way.subtract(keys)
        ready, self._held_back = self._held_back, set()
        return ready
