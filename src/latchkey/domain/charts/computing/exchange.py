"""Amounts in the currency of display.

What was paid in that currency counts as it was paid. Everything else goes through USD: the USD of the payment's own
day, divided by the rate of the day shown. What has no known rate is left out and counted.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal

from latchkey.domain.charts.chart import LeftOut
from latchkey.domain.charts.fact import Money
from latchkey.domain.charts.sums import Day
from latchkey.domain.purchases.terms import USD
from latchkey.domain.tariff.rates import Rates

REVENUE_TYPES = ("revenue", "revenue_net_of_taxes", "proceeds")


class Exchange:
    """One chart's currency and revenue types. Remembers what it had to leave out."""

    def __init__(self, currency: str, rates: Rates, types: tuple[str, ...] = REVENUE_TYPES[:1]) -> None:
        self.currency = currency
        self.types = types
        self._rates = rates
        # Of the types in REVENUE_TYPES.
        self.places = [REVENUE_TYPES.index(one) for one in types]
        self._is_gross = types == REVENUE_TYPES[:1]
        self._left_out = 0
        self._currencies: set[str] = set()
        self._known: dict[Day, Decimal | None] = {}

    def shown(self, money: Money, currency: str, day: Day, quantity: int = 0) -> tuple[int, ...]:
        """Millionths of the chart's currency, one for each of the types. `quantity` is how many payments the amount is
        of, for counting those that are left out; 0 does not count them."""
        if currency == self.currency:
            return self._chosen(money.micros, money.tax, money.commission)
        if money.unconverted and quantity:
            self._leave_out(abs(money.unconverted), currency)
        usd = self._chosen(money.usd, money.tax_usd, money.commission_usd)
        if self.currency == USD or not any(usd):
            return usd
        rate = self._rate(day)
        if rate is None:
            if quantity:
                self._leave_out(max(0, abs(quantity) - abs(money.unconverted)), currency)
            return (0,) * len(usd)
        return tuple(int((one / rate).to_integral_value(ROUND_HALF_EVEN)) for one in usd)

    @property
    def left_out(self) -> LeftOut:
        return LeftOut(self._left_out, tuple(sorted(self._currencies)))

    def converts(self, currency: str) -> bool:
        """Whether amounts of this currency depend on the day shown."""
        return self.currency not in (USD, currency)

    def _chosen(self, gross: int, tax: int, commission: int) -> tuple[int, ...]:
        if self._is_gross:
            return (gross,)
        net = gross - tax
        of_type = gross, net, net - commission
        return tuple([of_type[place] for place in self.places])

    def _rate(self, day: Day) -> Decimal | None:
        if day not in self._known:
            found = self._rates.on(self.currency, day)
            self._known[day] = None if found is None else Decimal(found.usd)
        return self._known[day]

    def _leave_out(self, payments: int, currency: str) -> None:
        self._left_out += payments
        if payments:
            self._currencies.add(currency)
