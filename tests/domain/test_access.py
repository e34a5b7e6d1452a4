"""Grants of an operator, and what a customer holds by grants and purchases."""

import pytest
from msgspec.structs import replace

from latchkey.domain.access.entitlements import active, held
from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.customer import Customer
from latchkey.domain.customers.promotion import DURATIONS, end_of, grant, revoke
from latchkey.domain.events.customer_event import EventType
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.purchases.purchase import Environment, Reason
from latchkey.domain.refusal import Refusal
from latchkey.domain.stores.test_store import actions
from tests.domain.book import Book
from tests.domain.shop import (
    CATALOG,
    COINS,
    NOON,
    PRO_LIFETIME,
    PRO_MONTHLY,
    PRO_PASS,
    PRO_YEARLY,
    TEAM_MONTHLY,
    at,
    bought,
    owner_of,
    someone,
    subscribed,
)

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
    book = Book.of(subscribed())
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


MONTH_END = at("2026-02-15T12:00")
YEAR_END = at("2027-01-15T12:00")


def ends(customer: Customer, catalog: Catalog = CATALOG) -> dict[str, tuple[str, Ms | None]]:
    return {id: (access.product_id, access.ends_at) for id, access in held(customer, catalog).items()}


GRACE = actions.fail_billing(subscribed(), NOON, grace_days=6)

HELD: list[tuple[str, Customer, dict[str, tuple[str, Ms | None]]]] = [
    ("nothing", someone(), {}),
    ("one product, one entitlement", owner_of(subscribed()), {"pro": ("pro_monthly", MONTH_END)}),
    (
        "one product, several entitlements",
        owner_of(subscribed(TEAM_MONTHLY)),
        {"pro": ("team_monthly", MONTH_END), "team": ("team_monthly", MONTH_END)},
    ),
    (
        "of several products the one that ends last",
        owner_of(subscribed(PRO_YEARLY, id="y"), subscribed(PRO_MONTHLY, id="m")),
        {"pro": ("pro_yearly", YEAR_END)},
    ),
    (
        "no end beats every end",
        owner_of(subscribed(PRO_YEARLY), bought(PRO_LIFETIME)),
        {"pro": ("pro_lifetime", None)},
    ),
    ("a product that grants nothing", owner_of(bought(COINS)), {}),
    ("a pass with an end", owner_of(bought(PRO_PASS)), {"pro": ("pro_pass", NOON + 10 * DAY)}),
    ("in grace the grace end", owner_of(GRACE), {"pro": ("pro_monthly", MONTH_END + 6 * DAY)}),
    (
        "a refund in grace pulls the end to its moment too",
        owner_of(actions.refund(GRACE, MONTH_END + DAY)),
        {"pro": ("pro_monthly", MONTH_END + DAY)},
    ),
    (
        "a refund when the grace is over leaves the end as it was",
        owner_of(actions.refund(GRACE, MONTH_END + 9 * DAY)),
        {"pro": ("pro_monthly", MONTH_END + 6 * DAY)},
    ),
    (
        "a refund pulls the end to its moment",
        owner_of(actions.refund(subscribed(), NOON + DAY)),
        {"pro": ("pro_monthly", NOON + DAY)},
    ),
    (
        "a refund of what would never have ended too",
        owner_of(actions.refund(bought(PRO_LIFETIME), NOON + DAY)),
        {"pro": ("pro_lifetime", NOON + DAY)},
    ),
    (
        "a refund reversed gives the end back",
        owner_of(actions.reverse_refund(actions.refund(bought(PRO_LIFETIME), NOON + 1), NOON + 2)),
        {"pro": ("pro_lifetime", None)},
    ),
    (
        "a promotional grant names its entitlement itself",
        grant(owner_of(subscribed()), "team", NOON + DAY, NOON),
        {"pro": ("pro_monthly", MONTH_END), "team": ("rc_promo_team_custom", NOON + DAY)},
    ),
    (
        "of a product that was changed away from, until then",
        owner_of(actions.change_product(subscribed(TEAM_MONTHLY), PRO_YEARLY, NOON + DAY, at_renewal=False)),
        {"pro": ("pro_yearly", at("2027-01-16T12:00")), "team": ("team_monthly", NOON + DAY)},
    ),
    (
        "a change that waits for renewal changes nothing yet",
        owner_of(actions.change_product(subscribed(), TEAM_MONTHLY, NOON + DAY, at_renewal=True)),
        {"pro": ("pro_monthly", MONTH_END)},
    ),
]


@pytest.mark.parametrize(("customer", "expected"), [row[1:] for row in HELD], ids=[row[0] for row in HELD])
def test_what_was_ever_granted_is_held_by_the_access_that_ends_last(
    customer: Customer, expected: dict[str, tuple[str, Ms | None]]
) -> None:
    assert ends(customer) == expected


@pytest.mark.parametrize(("offset", "has_access"), [(-1, True), (0, False), (1, False)])
def test_at_the_end_there_is_no_access_any_more(offset: Ms, has_access: bool) -> None:
    for one, end in ((subscribed(), MONTH_END), (bought(PRO_PASS), NOON + 10 * DAY), (GRACE, MONTH_END + 6 * DAY)):
        assert bool(active(owner_of(one), CATALOG, end + offset)) is has_access


def test_changing_the_mapping_changes_what_existing_customers_hold() -> None:
    customer = owner_of(subscribed())
    more = replace(PRO_MONTHLY, grants=("pro", "team"))
    less = replace(PRO_MONTHLY, grants=())

    assert list(held(customer, Catalog({more.id: more}))) == ["pro", "team"]
    assert held(customer, Catalog({less.id: less})) == {}
    assert held(customer, Catalog()) == {}


def test_changing_the_mapping_leaves_promotional_grants_alone() -> None:
    assert list(held(grant(someone(), "pro", None, NOON), Catalog())) == ["pro"]


def test_only_the_running_period_is_in_grace() -> None:
    renewed = actions.renew(subscribed(), CATALOG, NOON + DAY)
    failing = actions.fail_billing(renewed, NOON + 2 * DAY, grace_days=6)
    (pro,) = held(owner_of(failing), CATALOG).values()
    assert pro.ends_at == pro.grace_ends_at == at("2026-03-15T12:00") + 6 * DAY
