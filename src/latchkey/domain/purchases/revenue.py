"""What a subscription or a purchase has brought in: payments less what was given back, by currency and in USD."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from latchkey.domain.purchases.payment import Payment, payment_of
from latchkey.domain.purchases.purchase import Ownership, Purchase
from latchkey.domain.purchases.subscription import Invoice, Subscription
from latchkey.domain.purchases.terms import USD, Terms


@dataclass(frozen=True, slots=True)
class Earned:
    """In one currency, in millionths. Tax and commission as far as they are known."""

    currency: str
    gross: int
    commission: int = 0
    tax: int = 0

    @property
    def proceeds(self) -> int:
        return self.gross - self.commission - self.tax


@dataclass(frozen=True, slots=True)
class Revenue:
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
    for payment in _payments(bought):
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


def _payments(bought: Subscription | Purchase) -> Iterator[Payment]:
    """The latest one first."""
    if bought.ownership is not Ownership.PURCHASED:
        return
    for one in (bought,) if isinstance(bought, Purchase) else reversed(bought.periods):
        payment = payment_of(one)
        if payment is not None:
            yield payment
