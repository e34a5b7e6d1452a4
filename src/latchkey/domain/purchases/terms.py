"""What was known of a payment when it was first seen: the exchange rate, and the shares of the tax and of the store.

The engine adds them to every new payment, and nothing changes them afterwards. So a refund takes back exactly what the
payment brought in, whatever rates and percentages the operator gives later.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal

from latchkey.domain.money import Price

USD = "USD"


@dataclass(frozen=True, slots=True)
class Rate:
    """USD for one unit of the payment's currency."""

    # A decimal number as text, because a binary fraction could not be repeated exactly.
    usd: str
    # The day that the rate is of, as YYYY-MM-DD. It may be a few days before the payment: not every day has rates.
    day: str


@dataclass(frozen=True, slots=True)
class Terms:
    # None for a payment in USD, and where no rate was known.
    rate: Rate | None = None
    # Shares of the price from 0 to 1. None where nothing is known.
    tax: float | None = None
    commission: float | None = None


def usd_micros(price: Price, terms: Terms | None) -> int | None:
    """The payment in millionths of a US dollar. None where the price or the rate is not known."""
    return part_in_usd(price.micros, price, terms)


def part_in_usd(micros: int, price: Price, terms: Terms | None) -> int | None:
    """The same for a part of the payment, such as a partial refund."""
    if not price.known:
        return None
    if price.currency == USD or not micros:
        return micros
    if terms is None or terms.rate is None:
        return None
    return int((micros * Decimal(terms.rate.usd)).to_integral_value(ROUND_HALF_EVEN))
