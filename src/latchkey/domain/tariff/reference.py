"""Rates that come with Latchkey, for payments in a currency of which the operator gave no rate for the day.

`reference_rates.csv` has one rate of each currency of ISO 4217, all of one day. They are estimates: an amount in USD
that is a few percent off is better for a receiver than none. The operator's rates win.
"""

from __future__ import annotations

from importlib.resources import files

from latchkey.domain.money import Price
from latchkey.domain.purchases.purchase import USD, Rate
from latchkey.domain.tariff.rate_file import date_of, day_of, read_rates
from latchkey.domain.tariff.rates import DayRate, Rates

_FILE = files("latchkey.domain.tariff").joinpath("reference_rates.csv")
REFERENCE = {rate.currency: rate for _, rate in read_rates(_FILE.read_text(), day_of("2100-01-01"))}
REFERENCE_DATE = date_of(REFERENCE["EUR"].day)


def rate_on(rates: Rates, currency: str, day: int) -> DayRate | None:
    """The operator's rate for this day, else the reference rate. None for a currency that nobody knows."""
    return rates.on(currency, day) or REFERENCE.get(currency)


def is_estimate(price: Price, rate: Rate | None) -> bool:
    """Whether a payment with this rate had none of the operator's."""
    if not price.micros or not price.known or price.currency == USD:
        return False
    reference = REFERENCE.get(price.currency)
    return rate is None or (reference is not None and rate == Rate(reference.usd, date_of(reference.day)))
