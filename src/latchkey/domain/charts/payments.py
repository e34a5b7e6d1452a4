"""Facts about money: payments, and what of them was given back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from latchkey.domain.charts.amounts import Back, given_back, money_of
from latchkey.domain.charts.fact import Dimensions, Kind, Money
from latchkey.domain.charts.subject import FactBook
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
    money = money_of(price.micros, price, bought.terms)
    back: tuple[Back, ...] = ()
    refunded = False
    if bought.money_back or bought.given_back:
        back = tuple(given_back(bought, money))
        refunded = bought.refunded_at is not None
    return Paid(bought.purchased_at, bought.id, price.currency, money, dimensions, back, refunded, book)


def add_payments(payments: Sequence[Paid]) -> None:
    """The payments of one customer in one environment."""
    first = min(payments, key=lambda one: one[:2]) if payments else None
    for one in payments:
        n = 0 if one is first else 1
        one.book.add(Kind.PAYMENT, one.at, n, one.currency, 1, one.money, one.dimensions)
        for at, whole, money in one.back:
            one.book.add(Kind.REFUND, at, n, one.currency, whole, money, one.dimensions)
        if one.refunded:
            one.book.add(Kind.REFUNDED_PAYMENT, one.at, n, one.currency, 1, one.money, one.dimensions)
