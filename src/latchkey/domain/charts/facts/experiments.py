"""Facts about experiments: who was enrolled, and what they did afterwards."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from latchkey.domain.charts.fact import NO_MONEY, Dimensions, Kind, negative
from latchkey.domain.charts.facts.payments import Paid
from latchkey.domain.charts.facts.people import Bought, Held, held, paid, transitions, window_of
from latchkey.domain.charts.facts.subject import FactBook
from latchkey.domain.customers.customer import Enrollment
from latchkey.domain.instants import DAY, Ms

_CENT = 10_000


def add_enrollments(
    book: FactBook,
    enrollments: Sequence[Enrollment],
    of: Dimensions,
    payments: Sequence[Paid],
    bought: Sequence[Bought],
) -> None:
    """Nothing of it has a product: the question is what a variant is worth, whatever was bought."""
    for one in enrollments:
        _add(
            book,
            one.enrolled_at,
            of._replace(variants=(f"{one.experiment_id}:{one.variant_id}",)),
            [payment for payment in payments if payment.at >= one.enrolled_at],
            [thing for thing in bought if thing.at >= one.enrolled_at],
        )


def _add(book: FactBook, at: Ms, of: Dimensions, payments: Sequence[Paid], bought: Sequence[Bought]) -> None:
    def window(when: Ms) -> int:
        return window_of(when // DAY - at // DAY)

    def add_whether(kind: Kind, found: Sequence[Held]) -> None:
        if found:
            for when, change, _ in transitions(found):
                book.add(kind, at, window(when), "", change, NO_MONEY, of)

    book.add(Kind.ENROLLED, at, 0, "", 1, NO_MONEY, of)
    add_whether(Kind.ENROLLED_CONVERTED, [held(one) for one in bought])
    add_whether(Kind.ENROLLED_PAYER, [paid(one) for one in payments])
    earned: dict[int, int] = defaultdict(int)
    for one in payments:
        book.add(Kind.ENROLLED_REVENUE, at, window(one.at), one.currency, 1, one.money, of)
        earned[window(one.at)] += one.money.usd
        for back_at, whole, money in one.back:
            book.add(Kind.ENROLLED_REVENUE, at, window(back_at), one.currency, -whole, negative(money), of)
            earned[window(back_at)] -= money.usd
    total = square = 0
    for n, usd in sorted(earned.items()):
        total += usd
        grown = round(total / _CENT) ** 2
        book.add(Kind.ENROLLED_SQUARE, at, n, "", grown - square, NO_MONEY, of)
        square = grown
