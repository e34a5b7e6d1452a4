"""Sums of payments, refunds and conversions agree between events, charts, V2 and the export, to the last millionth."""

from hypothesis import given
from msgspec.structs import replace

from latchkey.domain.charts.period_rows import rows_of
from latchkey.domain.instants import DAY
from latchkey.domain.money.exchange_rates import NO_RATES, date_of
from latchkey.domain.money.pinned_rates import Tariff, is_estimate
from latchkey.domain.purchases.purchase import Terms, usd_micros
from tests.domain.book import Book
from tests.domain.money_lives import (
    Arrival,
    arrivals,
    check_events,
    check_revenue,
    check_rows,
    moment,
    payments,
    sums_of,
    sums_of_rows,
)
from tests.domain.shop import CATALOG


def live(told: list[Arrival]) -> tuple[Book, dict[str, Terms | None]]:
    """The customer after all of it, and the terms that each payment had when it was first seen."""
    rates = NO_RATES
    book = Book(catalog=replace(CATALOG, tariff=Tariff(rates=rates)))
    first_seen: dict[str, Terms | None] = {}
    for place, one in enumerate(told):
        if isinstance(one, tuple):
            rates = rates.plus(one)
            book.catalog = replace(CATALOG, tariff=Tariff(rates=rates))
        else:
            book.take_in(one, moment(place))
        for id, payment in payments(book.customer).items():
            first_seen.setdefault(id, payment.terms)
    return book, first_seen


@given(arrivals())
def test_events_charts_rows_and_revenue_agree_and_repeating_everything_changes_no_sum(told: list[Arrival]) -> None:
    book, first_seen = live(told)
    paid = payments(book.customer)
    check_events(book.customer, (one.wire for one in book.told))
    assert sums_of_rows(rows_of(0, book.customer, book.catalog)) == sums_of(paid.values())
    check_rows(book.customer, book.catalog)
    check_revenue(book.customer)
    # The terms of a payment are those it was first seen with.
    for id, payment in paid.items():
        assert payment.terms is not None
        assert payment.terms == first_seen[id]
        assert payment.usd == usd_micros(payment.price, payment.terms)
        if not is_estimate(payment.price, payment.terms.rate) and payment.terms.rate is not None:
            day = payment.at // DAY
            assert date_of(day - 7) <= payment.terms.rate.day <= date_of(day)
    again = Book(customer=book.customer, catalog=book.catalog, now=book.now)
    for one in told:
        if not isinstance(one, tuple):
            again.take_in(one, moment(len(told)))
    assert list(rows_of(0, again.customer, again.catalog)) == list(rows_of(0, book.customer, book.catalog))
    assert payments(again.customer) == paid
