"""A payment: the money of one period or one-time purchase, what of it was given back, and both in USD.

Events, charts, V2 and the export use these amounts, so they agree to the last millionth.
"""

from __future__ import annotations

from typing import NamedTuple

from latchkey.domain.instants import Ms
from latchkey.domain.money import Price
from latchkey.domain.purchases.purchase import Purchase, PurchaseKind
from latchkey.domain.purchases.subscription import Period
from latchkey.domain.purchases.terms import Terms, part_in_usd, usd_micros


class Payment(NamedTuple):
    at: Ms
    price: Price
    terms: Terms | None
    # Whether all of it was given back.
    refunded: bool
    # Millionths of the price that were given back: all of it, or a part.
    returned: int
    # Millionths of a US dollar. None where no rate is known.
    usd: int | None
    returned_usd: int | None

    @property
    def kept(self) -> int:
        return self.price.micros - self.returned

    @property
    def kept_usd(self) -> int | None:
        return None if self.usd is None or self.returned_usd is None else self.usd - self.returned_usd


def payment_of(bought: Period | Purchase) -> Payment | None:
    """None where no money moved (a trial, a grant), and where the store does not tell how much."""
    price = bought.price
    granted = isinstance(bought, Purchase) and bought.kind is not PurchaseKind.ONE_TIME
    if not price.micros or not price.known or granted:
        return None
    refunded = bought.refunded_at is not None
    # A store may name more than was paid, with fees for example.
    returned = price.micros if refunded else min(bought.given_back, price.micros)
    return Payment(
        bought.purchased_at,
        price,
        bought.terms,
        refunded,
        returned,
        usd_micros(price, bought.terms),
        part_in_usd(returned, price, bought.terms),
    )
