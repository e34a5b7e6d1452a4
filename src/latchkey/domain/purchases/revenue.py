"""Payments: the money of one period or one-time purchase, what of it was given back, both in USD; and what a
subscription or a purchase has brought in."""

from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct

from latchkey.domain.instants import Ms
from latchkey.domain.money.amounts import Price
from latchkey.domain.purchases.purchase import USD, Ownership, Purchase, PurchaseKind, Terms, part_in_usd, usd_micros
from latchkey.domain.purchases.subscription import Invoice, Period, Subscription


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


class Earned(Struct, frozen=True):
    """In one currency, in millionths. Tax and commission as far as they are known."""

    currency: str
    gross: int
    commission: int = 0
    tax: int = 0

    @property
    def proceeds(self) -> int:
        return self.gross - self.commission - self.tax


class Revenue(Struct, frozen=True):
    # The currency of the latest payment comes first.
    by_currency: tuple[Earned, ...]
    # Of the payments that could be converted.
    usd: Earned
    # How many could not.
    unconverted: int


def revenue(bought: Subscription | Purchase) -> Revenue:
    """Currencies in which nothing was earned are left out: in a trial, after a refund, for a grant, and where a family
    member has paid."""
    found: dict[str, Earned] = {}
    usd, unconverted = Earned(USD, 0), 0
    for payment in payments_of(bought):
        if not payment.kept:
            continue
        currency = payment.price.currency
        found[currency] = _part(found.get(currency, Earned(currency, 0)), payment.kept, payment.terms)
        if payment.kept_usd is None:
            unconverted += 1
        else:
            usd = _part(usd, payment.kept_usd, payment.terms)
    return Revenue(tuple(found.values()), usd, unconverted)


def invoiced(invoice: Invoice) -> Earned:
    """The total of an invoice, in its own currency."""
    return _part(Earned(invoice.total.currency, 0), invoice.total.micros, invoice.terms)


def _part(sum: Earned, gross: int, terms: Terms | None) -> Earned:
    commission = (terms.commission or 0.0) if terms is not None else 0.0
    tax = (terms.tax or 0.0) if terms is not None else 0.0
    return Earned(
        sum.currency, sum.gross + gross, sum.commission + round(gross * commission), sum.tax + round(gross * tax)
    )


def payments_of(bought: Subscription | Purchase) -> Iterator[Payment]:
    """The customer's own, the latest one first; what a family member paid is left out."""
    if bought.ownership is not Ownership.PURCHASED:
        return
    for one in (bought,) if isinstance(bought, Purchase) else reversed(bought.periods):
        payment = payment_of(one)
        if payment is not None:
            yield payment
