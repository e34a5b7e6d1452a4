"""What a project knows about money: exchange rates, tax and commission."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.instants import DAY, Ms
from latchkey.domain.money import Price
from latchkey.domain.purchases.terms import USD, Rate, Terms
from latchkey.domain.tariff.fees import NO_FEES, Fees
from latchkey.domain.tariff.rate_file import date_of
from latchkey.domain.tariff.rates import NO_RATES, Rates
from latchkey.domain.tariff.reference import rate_on


@dataclass(frozen=True, slots=True)
class Tariff:
    fees: Fees = NO_FEES
    rates: Rates = NO_RATES

    def terms(
        self, price: Price, store: str, country: str | None, at: Ms, *, subscription: bool, first_year: bool = True
    ) -> Terms:
        day = at // DAY
        tax = self.fees.tax(store, country, day)
        commission = self.fees.commission(
            store, country, day, subscription=subscription, first_year=first_year, tax=tax
        )
        return Terms(self._rate(price, day), tax, commission)

    def _rate(self, price: Price, day: int) -> Rate | None:
        if price.currency == USD or not price.micros:
            return None
        found = rate_on(self.rates, price.currency, day)
        return None if found is None else Rate(found.usd, date_of(found.day))


NO_TARIFF = Tariff()
