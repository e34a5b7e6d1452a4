"""Exchange rates by currency and day, as the operator gave them. Latchkey never asks anybody else for one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

# A rate counts for its own day and for this many days after it: banks publish none on weekends and holidays.
GOOD_FOR_DAYS = 7


class DayRate(NamedTuple):
    """What one unit of a currency was worth in USD on a day."""

    currency: str
    # Days since 1970-01-01, UTC.
    day: int
    # A decimal number as text, so that it stays exact.
    usd: str


class _Currency(NamedTuple):
    # In ascending order, and the rate of each.
    days: Sequence[int]
    rates: Sequence[str]


@dataclass(frozen=True, slots=True)
class Rates:
    _by_currency: Mapping[str, _Currency] = field(default_factory=dict)

    def on(self, currency: str, day: int) -> DayRate | None:
        """The newest rate that is not after this day and not more than GOOD_FOR_DAYS older. None without one."""
        known = self._by_currency.get(currency)
        if known is None:
            return None
        place = bisect_right(known.days, day) - 1
        if place < 0 or known.days[place] < day - GOOD_FOR_DAYS:
            return None
        return DayRate(currency, known.days[place], known.rates[place])

    def covers(self, currency: str, first: int, last: int) -> bool:
        """Whether each of these days has a rate."""
        known = self._by_currency.get(currency)
        if known is None or not known.days or known.days[0] > first:
            return False
        used = known.days[bisect_right(known.days, first) - 1 : bisect_right(known.days, last)]
        return all(later - 1 - day <= GOOD_FOR_DAYS for day, later in pairwise([*used, last + 1]))

    def plus(self, more: Iterable[DayRate]) -> Rates:
        """With these too. A rate of a day that is known already replaces the known one."""
        found: dict[str, dict[int, str]] = {}
        for currency, day, usd in more:
            found.setdefault(currency, {})[day] = usd
        merged = dict(self._by_currency)
        for currency, given in found.items():
            known = merged.get(currency)
            together = {**dict(zip(known.days, known.rates, strict=True)), **given} if known is not None else given
            days = sorted(together)
            merged[currency] = _Currency(days, [together[day] for day in days])
        return Rates(merged)


NO_RATES = Rates()
