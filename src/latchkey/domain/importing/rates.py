"""The exchange rate that two prices of one payment imply."""

from __future__ import annotations

from decimal import Decimal, localcontext

from latchkey.domain.importing.cells import day
from latchkey.domain.instants import Ms
from latchkey.domain.money import Price
from latchkey.domain.purchases.terms import USD, Rate

# So many that the price times the rate is the price in USD again, to the last millionth.
_DIGITS = 18


def implied_rate(price: Price, usd_micros: int, at: Ms) -> Rate | None:
    """None where it would say nothing: a price in USD, nothing paid, or a price that is not known."""
    if not price.known or price.currency == USD or price.micros <= 0 or usd_micros <= 0:
        return None
    with localcontext() as context:
        context.prec = _DIGITS
        rate = Decimal(usd_micros) / Decimal(price.micros)
    return Rate(format(rate.normalize(), "f"), day(at))
