"""Facts about money: payments, and what of them was given back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from latchkey.domain.charts.amounts import Back, given_back, money_of, same_terms
from latchkey.domain.charts.fact import NO_MONEY, Dimensions, Kind, Money
from latchkey.domain.charts.facts.dimensions import SubscriptionDimensions
from latchkey.domain.charts.facts.subject import FactBook
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import Purchase
from latchkey.domain.purchases.subscription import Period


class Paid(NamedTuple):
    """A payment, and everything that was given back of it."""

    at: Ms
    # Orders payments of the same millisecond.
    id: str
    currency: str
    money: Money
    dimensions: Dimensions
    back: tuple[Back, ...]
    refunded: bool
    book: FactBook


def payment_of(bought: Period | Purchase, dimensions: Dimensions, book: FactBook) -> Paid | None:
    """None where no money moved, and where the store does not tell how much."""
    price = bought.price
    if not price.micros or not price.known:
        return None
    return _paid(bought, money_of(price.micros, price, bought.terms), dimensions, book)


def payments_of(periods: Sequence[Period], dimensions: SubscriptionDimensions, book: FactBook) -> Iterator[Paid]:
    """Of the periods of a subscription."""
    last: Period | None = None
    money = NO_MONEY
    for one in periods:
        price = one.price
        if not price.micros or not price.known:
            continue
        if last is None or not same_terms(last, one):
            money = money_of(price.micros, price, one.terms)
        last = one
        yield _paid(one, money, dimensions.of(one), book)


def _paid(bought: Period | Purchase, money: Money, dimensions: Dimensions, book: FactBook) -> Paid:
    back: tuple[Back, ...] = ()
    refunded = False
    if bought.money_back or bought.given_back or bought.parts_back:
        back = tuple(given_back(bought, money))
        refunded = bought.refunded_at is not None
    return Paid(bought.purchased_at, bought.id, bought.price.currency, money, dimensions, back, refunded, book)


def add_payments(payments: Sequence[Paid]) -> None:
    """The payments of one customer in one environment."""
    first = min(payments, key=lambda one: one[:2]) if payments else None
    for one in payments:
        at, _, currency, money, of, back, refunded, book = one
        n = 0 if one is first else 1
        book.add(Kind.PAYMENT, at, n, currency, 1, money, of)
        for back_at, whole, part in back:
            book.add(Kind.REFUND, back_at, n, currency, whole, part, of)
        if refunded:
            book.add(Kind.REFUNDED_PAYMENT, at, n, currency, 1, money, of)
