from __future__ import annotations

import pytest

from latchkey.domain.access.entitlements import active
from latchkey.domain.customers.promotion import DURATIONS, end_of, grant, revoke
from latchkey.domain.events.event import EventType
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.purchases.purchase import Environment, Reason
from latchkey.domain.refusal import Refusal
from tests.domain.book import Book
from tests.domain.shop import CATALOG, NOON, at, someone, subscribed

NAMED = [
    ("daily", "2026-02-01"),
    ("three_day", "2026-02-03"),
    ("weekly", "2026-02-07"),
    ("two_week", "2026-02-14"),
    ("monthly", "2026-02-28"),
    ("two_month", "2026-03-31"),
    ("three_month", "2026-04-30"),
    ("six_month", "2026-07-31"),
    ("yearly", "2027-01-31"),
    ("lifetime", None),
]


@pytest.mark.parametrize(("name", "end"), NAMED)
def test_each_named_length_is_a_calendar_length(name: str, end: str | None) -> None:
    assert end_of(name, at("2026-01-31")) == (at(end) if end else None)


def test_every_named_length_has_a_row() -> None:
    assert {name for name, _ in NAMED} == DURATIONS.keys()


@pytest.mark.parametrize("ends_at", [NOON, NOON - 1])
def test_a_grant_that_would_end_in_the_past_is_refused(ends_at: Ms) -> None:
    with pytest.raises(Refusal, match="in the past"):
        grant(someone(), "pro", ends_at, NOON)


def test_a_grant_runs_out_at_its_end() -> None:
    book = Book()
    assert book.change(grant(book.customer, "pro", NOON + DAY, NOON)) == [EventType.NON_RENEWING_PURCHASE]
    assert book.holds(NOON + DAY - 1) == ["pro"]
    assert book.pass_time(NOON + DAY) == [EventType.EXPIRATION]
    assert book.last.expiration_reason == Reason.UNKNOWN
    assert book.last.store == "promotional"
    assert book.holds() == []


def test_each_grant_stands_alone_and_is_told_alone() -> None:
    book = Book()
    book.change(grant(book.customer, "pro", NOON + DAY, NOON))
    assert book.change(grant(book.customer, "pro", NOON + DAY, NOON)) == [EventType.NON_RENEWING_PURCHASE]
    assert len({one.event.id for one in book.told}) == 2


def test_revoking_ends_every_running_grant_of_that_entitlement_and_no_other() -> None:
    book = Book()
    for entitlement_id, end in (("pro", NOON + DAY), ("pro", None), ("team", None)):
        book.change(grant(book.customer, entitlement_id, end, NOON))

    told = book.change(revoke(book.customer, "pro", NOON + 1), NOON + 1)

    assert told == [EventType.EXPIRATION, EventType.EXPIRATION]
    assert book.last.expiration_reason == Reason.DEVELOPER_INITIATED
    assert book.last.expiration_at_ms == NOON + 1
    assert book.holds() == ["team"]


def test_revoking_leaves_what_was_bought() -> None:
    book = Book()
    book.take_in(subscribed())
    book.change(grant(book.customer, "pro", None, NOON))
    book.change(revoke(book.customer, "pro", NOON + 1), NOON + 1)
    assert active(book.customer, CATALOG, NOON + 1)["pro"].product_id == "pro_monthly"


def test_revoking_what_does_not_run_changes_nothing() -> None:
    book = Book()
    book.change(grant(book.customer, "pro", NOON + DAY, NOON))
    book.pass_time(NOON + DAY)
    assert revoke(book.customer, "pro", NOON + DAY) is book.customer
    assert revoke(book.customer, "team", NOON + DAY) is book.customer


def test_on_a_test_clock_a_grant_is_sandbox() -> None:
    for clock, environment in (("clock", Environment.SANDBOX), (None, Environment.PRODUCTION)):
        customer = grant(someone(test_clock_id=clock), "pro", None, NOON)
        assert customer.purchases[0].environment is environment
