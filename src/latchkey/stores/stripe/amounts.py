"""Stripe's amounts, in the smallest unit of their currency, as prices. Pure."""

from latchkey.domain.money.amounts import Price

# Currencies without a smaller unit. UGX and ISK have none either, but Stripe writes both with two decimals.
_WHOLE = frozenset(
    ["BIF", "CLP", "DJF", "GNF", "JPY", "KMF", "KRW", "MGA", "PYG", "RWF", "VND", "VUV", "XAF", "XOF", "XPF"]
)
_THREE = frozenset(["BHD", "JOD", "KWD", "OMR", "TND"])


def decimals(currency: str) -> int:
    code = currency.upper()
    return 0 if code in _WHOLE else 3 if code in _THREE else 2


def price_of(amount: int, currency: str) -> Price:
    return Price(micros(amount, currency), currency.upper())


def micros(amount: int, currency: str) -> int:
    return int(amount * 10 ** (6 - decimals(currency)))


def smallest_units(price: Price) -> int:
    """The same price as Stripe writes it. What is smaller than the smallest unit is cut off."""
    return int(price.micros // 10 ** (6 - decimals(price.currency)))
