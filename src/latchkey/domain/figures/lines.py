"""What a customer contributes to the figures: for each purchase, what changes at which instant.

The figures are sums. A line says "at this instant, in this currency, add this" (`Tally`), and the figures at an instant
are the sum of all lines up to it. For example, a monthly subscription for 9.99 that was bought on 1 January gives

    1 January     active +1, mrr +9.99, payments +1, paid +9.99
    1 February    active -1, mrr -9.99, expired +1

The end is known from the beginning, so a subscription expires in the figures by itself. A renewal replaces the lines of
its purchase: the second line moves to 1 March, and the new payment gets a line of its own.

How the lines of a subscription are made (`_subscription`):
1. Each period is a payment, and perhaps the start of a trial.
2. `segments` says when which period counts. Periods may overlap; then the later one counts.
3. A segment adds to `active` and `mrr` (or to `trials`) where it starts, and takes the same away where it ends.
4. `stretches` joins paid segments without a gap between them. The end of a stretch is an expiration; a stretch that
   starts after another one of the same customer has ended is a return (`returns`).
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import NamedTuple

from latchkey.domain.catalog import Catalog
from latchkey.domain.charts.facts.month import monthly, sold_length
from latchkey.domain.charts.facts.segments import PAID, PurchaseKey, Stretch, returns, segments, stretches
from latchkey.domain.customers.customer import Customer
from latchkey.domain.figures.tally import NOTHING, Tally
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.payment import Payment, payment_of
from latchkey.domain.purchases.purchase import Environment, Ownership, PurchaseKind
from latchkey.domain.purchases.subscription import Period, PeriodType, Subscription
from latchkey.domain.purchases.terms import USD, usd_micros


class Line(NamedTuple):
    """What changes at one instant in one currency."""

    at: Ms
    currency: str
    environment: Environment
    tally: Tally


def contributions(customer: Customer, catalog: Catalog) -> dict[PurchaseKey, tuple[Line, ...]]:
    """The lines of every purchase that can have any. Who lives on a test clock lives in another time and has none."""
    if customer.test_clock_id is not None:
        return {}
    books: dict[PurchaseKey, _Book] = {}
    runs: dict[Environment, list[Stretch]] = defaultdict(list)
    for one in customer.purchases:
        if one.kind is PurchaseKind.ONE_TIME:
            book = books[one.store, one.id] = _Book(one.environment)
            # Shared by the family: somebody else paid, and is counted.
            if one.ownership is Ownership.PURCHASED:
                book.payment(payment_of(one))
    for subscription in customer.subscriptions:
        key = subscription.store, subscription.id
        books[key] = _Book(subscription.environment)
        if subscription.ownership is Ownership.PURCHASED:
            runs[subscription.environment] += _subscription(books[key], key, subscription, catalog)
    if books and all(book.environment is Environment.SANDBOX for book in books.values()):
        next(iter(books.values())).add(customer.first_seen_at, _first_currency(customer), Tally(newcomers=1))
    for together in runs.values():
        for stretch in returns(together):
            books[stretch.key].add(stretch.start, stretch.first.price.currency, Tally(resubscribed=1))
    return {key: book.lines() for key, book in books.items()}


def _first_currency(customer: Customer) -> str:
    """Of any purchase: a line needs one, though it says nothing about a new customer."""
    prices = [one.price for one in customer.purchases if one.kind is PurchaseKind.ONE_TIME]
    prices += [period.price for one in customer.subscriptions for period in one.periods]
    return prices[0].currency if prices else ""


class _Book:
    """The lines of one purchase while they are put together."""

    __slots__ = ("_tallies", "environment")

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self._tallies: dict[tuple[Ms, str], Tally] = {}

    def add(self, at: Ms, currency: str, tally: Tally) -> None:
        known = self._tallies.get((at, currency))
        self._tallies[at, currency] = tally if known is None else known.plus(tally)

    def payment(self, one: Payment | None) -> None:
        if one is None:
            return
        tally = Tally(payments=1, paid=one.price.micros, refunds=int(one.refunded), refunded=one.returned)
        if one.price.currency != USD and one.usd is not None and one.returned_usd is not None:
            tally = tally._replace(converted=1, paid_usd=one.usd, refunded_usd=one.returned_usd)
        self.add(one.at, one.price.currency, tally)

    def lines(self) -> tuple[Line, ...]:
        return tuple(
            Line(at, currency, self.environment, tally)
            for (at, currency), tally in sorted(self._tallies.items())
            if tally != NOTHING
        )


def _subscription(book: _Book, key: PurchaseKey, subscription: Subscription, catalog: Catalog) -> list[Stretch]:
    periods = subscription.periods
    for period in periods:
        book.payment(payment_of(period))
        if period.period_type is PeriodType.TRIAL:
            book.add(period.purchased_at, period.price.currency, Tally(trials_started=1))
    counted = segments(subscription)
    for trial, after in pairwise(periods):
        if trial.period_type is PeriodType.TRIAL and after.period_type in PAID:
            ended_at = max((one.end for one in counted if one.period is trial), default=trial.purchased_at)
            book.add(ended_at, trial.price.currency, Tally(trials_kept=1))
            book.add(after.purchased_at, after.price.currency, Tally(trials_converted=1))
    for start, end, period in counted:
        if period.period_type is PeriodType.TRIAL:
            begins, ends = Tally(trials=1), Tally(trials=-1)
        elif period.period_type in PAID:
            begins = _active(period, catalog)
            ends = NOTHING.minus(begins)
        else:
            continue
        book.add(start, period.price.currency, begins)
        book.add(end, period.price.currency, ends)
    found = list(stretches(key, counted))
    for stretch in found:
        book.add(stretch.end, stretch.last.price.currency, Tally(expired=1))
    return found


def _active(period: Period, catalog: Catalog) -> Tally:
    """An active subscription at the price it was sold for. Its length is the product's: extensions and early ends move
    a period's own."""
    product = catalog.find(period.product_id)
    length = product.duration if product is not None else None
    length = length or sold_length(period.ends_at - period.purchased_at)
    tally = Tally(active=1, mrr=monthly(period.price.micros, length))
    usd = usd_micros(period.price, period.terms)
    if period.price.currency == USD or usd is None:
        return tally
    return tally._replace(active_usd=1, mrr_usd=monthly(usd, length))
