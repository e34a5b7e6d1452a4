"""Facts about customers: when they were first seen, when they first paid, and what they paid since.

Windows after the first seen day count whole days (UTC): day 0 is the first seen day itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from latchkey.domain.charts.fact import LIFETIMES, NO_MONEY, Dimensions, Kind, negative
from latchkey.domain.charts.facts.payments import Paid
from latchkey.domain.charts.facts.subject import FactBook, counts
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.purchases.purchase import MoneyBack

_LAST = len(LIFETIMES) - 1
# The first window of each day up to the longest one.
_WINDOWS = tuple(
    next(n for n, days in enumerate(LIFETIMES) if days is None or day <= days)
    for day in range((LIFETIMES[-2] or 0) + 1)
)


# When it was bought, and its id; when all of it was given back (1) and that was reversed (-1); what it was.
Held: TypeAlias = tuple[Ms, str, Sequence[tuple[Ms, int]], Dimensions]
_at = itemgetter(0, 1)


class Bought(NamedTuple):
    """Anything bought, a trial included, with or without money."""

    at: Ms
    # Orders purchases of the same millisecond.
    id: str
    money_back: tuple[MoneyBack, ...]
    dimensions: Dimensions


def first_seen_at(customer: Customer) -> Ms:
    """The earlier of first contact and first purchase: a store may report a purchase before the app is opened."""
    first = customer.first_seen_at
    for one in customer.subscriptions:
        first = min(first, one.started_at)
    for bought in customer.purchases:
        if counts(bought):
            first = min(first, bought.purchased_at)
    return first


def add_customer(
    book: FactBook, customer: Customer, of: Dimensions, payments: Sequence[Paid], bought: Sequence[Bought]
) -> None:
    """`payments` and `bought` are those of the customer's environment."""
    seen_at = first_seen_at(customer)
    book.add(Kind.CUSTOMER, seen_at, 0, "", 1, NO_MONEY, of)
    if not bought:
        return
    people = _People(book, seen_at, of)
    if payments:
        first = min(payments, key=lambda one: one[:2])
        book.add(Kind.PAYING_CUSTOMER, first.at, 0, "", 1, NO_MONEY, first.dimensions)
        people.add_revenue(payments)
        people.add_whether(Kind.SEEN_PAYER, [paid(one) for one in payments])
    people.add_whether(Kind.SEEN_CONVERTED, [held(one) for one in bought])


def paid(payment: Paid) -> Held:
    return payment.at, payment.id, [(at, whole) for at, whole, _ in payment.back], payment.dimensions


def held(bought: Bought) -> Held:
    return bought.at, bought.id, _whole(bought.money_back) if bought.money_back else (), bought.dimensions


def _whole(facts: tuple[MoneyBack, ...]) -> list[tuple[Ms, int]]:
    """The refunds and reversals that changed whether it is refunded."""
    found: list[tuple[Ms, int]] = []
    for fact in facts:
        if fact.reversal == (len(found) % 2 == 1):
            found.append((fact.at, -1 if fact.reversal else 1))
    return found


def window_of(days: int) -> int:
    """The first of the LIFETIMES that a day falls into, counted from day 0."""
    return _WINDOWS[max(0, days)] if days < len(_WINDOWS) else _LAST


def transitions(found: Sequence[Held]) -> Iterator[tuple[Ms, int, Dimensions]]:
    """When somebody came to have any of these that is not refunded (1), and when the last one was refunded (-1)."""
    if not any(back for _, _, back, _ in found):
        at, _, _, of = min(found, key=_at)
        yield at, 1, of
        return
    count = 0
    shown: Dimensions | None = None
    # Within one millisecond, what was bought comes before what was given back.
    for at, change, _, of in sorted(_steps(found), key=lambda one: (one[0], -one[1], one[2])):
        count += change
        if count > 0 and shown is None:
            shown = of
            yield at, 1, shown
        elif count == 0 and shown is not None:
            yield at, -1, shown
            shown = None


def _steps(found: Sequence[Held]) -> Iterator[tuple[Ms, int, str, Dimensions]]:
    for at, id, back, of in found:
        yield at, 1, id, of
        for back_at, whole in back:
            if whole:
                yield back_at, -whole, id, of


class _People:
    __slots__ = ("_book", "_day", "_found", "_of", "_seen_at")

    def __init__(self, book: FactBook, seen_at: Ms, of: Dimensions) -> None:
        self._book = book
        self._seen_at = seen_at
        self._day = seen_at // DAY
        self._of = of
        self._found: dict[Dimensions, Dimensions] = {}

    def dimensions(self, of: Dimensions) -> Dimensions:
        """What was bought is of the purchase; where the customer was first seen is of the customer, and so are the
        variants, or more customers of a variant could buy than there are."""
        found = self._found.get(of)
        if found is None:
            mine = self._of
            found = self._found[of] = of._replace(
                country=mine.country, platform=mine.platform, app_version=mine.app_version, variants=mine.variants
            )
        return found

    def window(self, at: Ms) -> int:
        return window_of(at // DAY - self._day)

    def add_revenue(self, payments: Sequence[Paid]) -> None:
        add, seen_at = self._book.add, self._seen_at
        for at, _, currency, money, bought, back, _, _ in payments:
            of = self.dimensions(bought)
            add(Kind.SEEN_REVENUE, seen_at, self.window(at), currency, 1, money, of)
            for back_at, whole, part in back:
                add(Kind.SEEN_REVENUE, seen_at, self.window(back_at), currency, -whole, negative(part), of)

    def add_whether(self, kind: Kind, found: Sequence[Held]) -> None:
        """Whether the customer has any of these that is not refunded, from when on. A later refund takes away from the
        window that its own day falls into."""
        for at, change, of in transitions(found):
            self._book.add(kind, self._seen_at, self.window(at), "", change, NO_MONEY, self.dimensions(of))
