"""Stripe's amounts: whole numbers of a currency's smallest unit."""

from __future__ import annotations

from decimal import Decimal

from latchkey.domain.refusal import Invalid
from latchkey.emulators.acts import price_of

# Currencies whose smallest unit is not a hundredth. Amounts in ISK and UGX have two decimals at Stripe, always 00.
NO_DECIMALS = frozenset(
    ("bif", "clp", "djf", "gnf", "jpy", "kmf", "krw", "mga", "pyg", "rwf", "vnd", "vuv", "xaf", "xof", "xpf")
)
THREE_DECIMALS = frozenset(("bhd", "jod", "kwd", "omr", "tnd"))


def decimals_of(currency: str) -> int:
    return 0 if currency in NO_DECIMALS else 3 if currency in THREE_DECIMALS else 2


def smallest_units(amount: float, currency: str) -> int:
    """4.99 of a currency in Stripe's amounts: 499."""
    decimals = decimals_of(currency)
    exact = Decimal(price_of(amount, currency.upper()).micros).scaleb(decimals - 6)
    if exact != exact.to_integral_value():
        raise Invalid(f"An amount in {currency.upper()} has at most {decimals} decimals.", param="price")
    return int(exact)
