"""Amounts in the currency of display.

What was paid in that currency counts as it was paid. Everything else goes through USD: the USD of the payment's own
day, divided by the rate of the day shown. What has no known rate is left out and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import compress
from operator import sub
from typing import TypeAlias

from latchkey.domain.purchases.purchase import USD
from latchkey.domain.tariff.rates import Rates
from latchkey.domain.tariff.reference import rate_on
from latchkey.subjects.charts.rules.chart import LeftOut
from latchkey.subjects.charts.rules.facts import Day

# Of whole numbers.
_Ratio: TypeAlias = tuple[int, int]

REVENUE_TYPES = ("revenue", "revenue_net_of_taxes", "proceeds")


class Exchange:
    """One chart's currency and revenue types. Remembers what it had to leave out."""

    def __init__(self, currency: str, rates: Rates, types: tuple[str, ...] = REVENUE_TYPES[:1]) -> None:
        self.currency = currency
        self.types = types
        # Of the types in REVENUE_TYPES.
        self._places = [REVENUE_TYPES.index(one) for one in types]
        self._is_gross = types == REVENUE_TYPES[:1]
        self._left_out = 0
        self._currencies: set[str] = set()
        self._rate = cache(lambda day: _ratio(rates, currency, day))

    def columns(
        self,
        money: Sequence[list[int]],
        currency: str,
        days: Sequence[Day],
        quantities: Sequence[int],
        counted: Sequence[bool] | None = None,
    ) -> list[list[int]]:
        """Millionths of the chart's currency, one column for each of the types. `money` has the columns of a run,
        `quantities` how many payments each amount is of, for counting those that are left out; `counted` says which
        amounts are counted, all of them without it. An amount can be of no whole payment: a part that was refunded,
        or the difference of two prices."""
        if currency == self.currency:
            return self._chosen(money[:3])
        unconverted = money[6]
        if any(unconverted):
            counts = unconverted if counted is None else compress(unconverted, counted)
            self._leave_out(sum(map(abs, counts)), currency)
        usd = self._chosen(money[3:6])
        if self.currency == USD:
            return usd
        rates = list(map(self._rate, days))
        for place, rate in enumerate(rates) if None in rates else ():
            if rate is None and (counted is None or counted[place]) and any(column[place] for column in usd):
                self._leave_out(_converted(quantities[place], unconverted[place]), currency)
        # The chosen type is often one of the others too.
        found = {place: _divided(column, rates) for place, column in dict(zip(self._places, usd, strict=True)).items()}
        return [found[place] for place in self._places]

    @property
    def left_out(self) -> LeftOut:
        return LeftOut(self._left_out, tuple(sorted(self._currencies)))

    def _chosen(self, money: Sequence[list[int]]) -> list[list[int]]:
        gross, tax, commission = money
        if self._is_gross:
            return [gross]
        net = list(map(sub, gross, tax))
        of_type = gross, net, list(map(sub, net, commission))
        return [of_type[place] for place in self._places]

    def _leave_out(self, payments: int, currency: str) -> None:
        self._left_out += payments
        if payments:
            self._currencies.add(currency)


def _ratio(rates: Rates, currency: str, day: Day) -> _Ratio | None:
    found = rate_on(rates, currency, day)
    return None if found is None else Fraction(found.usd).as_integer_ratio()


def _converted(quantity: int, unconverted: int) -> int:
    """How many payments an amount in USD is of. It is of one at least, unless all may be those without USD."""
    return max(abs(quantity) - abs(unconverted), 0 if unconverted else 1)


def _divided(usd: Sequence[int], rates: Sequence[_Ratio | None]) -> list[int]:
    """To the nearest millionth, and to the even one of two that are as near. Without a rate: 0. Charts by day have tens
    of thousands of amounts, so they are whole numbers, and no function is called for each of them but `divmod`."""
    found: list[int] = []
    for amount, rate in zip(usd, rates, strict=True):
        if rate is None or not amount:
            found.append(0)
            continue
        numerator, denominator = rate
        # A half is added before it is rounded down, so a number in the middle has no rest.
        nearest, rest = divmod(2 * amount * denominator + numerator, 2 * numerator)
        found.append(nearest if rest or nearest % 2 == 0 else nearest - 1)
    return found
