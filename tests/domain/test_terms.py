"""What a payment is worth in USD, and what of it stays when it is told again."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from latchkey.domain.money.amounts import FREE, UNKNOWN, Price
from latchkey.domain.purchases.lifecycle import observe
from latchkey.domain.purchases.purchase import (
    Environment,
    Purchase,
    PurchaseKind,
    Rate,
    Terms,
    observe_purchase,
    part_in_usd,
    usd_micros,
)
from latchkey.domain.purchases.reconciliation import settle
from latchkey.domain.purchases.subscription import Cause, Moment, Period, PeriodType, Status, Subscription

EUR = Terms(rate=Rate("1.0834", "2026-11-13"))


@pytest.mark.parametrize(
    ("price", "terms", "expected"),
    [
        (Price(9_990_000, "USD"), None, 9_990_000),
        (Price(9_990_000, "USD"), Terms(rate=Rate("3", "2026-11-13")), 9_990_000),
        (Price(10_000_000, "EUR"), EUR, 10_834_000),
        (Price(1, "EUR"), Terms(rate=Rate("0.5", "2026-11-13")), 0),
        (Price(3, "EUR"), Terms(rate=Rate("0.5", "2026-11-13")), 2),
        (Price(10_000_000, "EUR"), None, None),
        (Price(10_000_000, "EUR"), Terms(), None),
        (Price(0, "EUR"), Terms(), 0),
        (FREE, None, 0),
        (UNKNOWN, EUR, None),
    ],
)
def test_a_payment_in_usd(price: Price, terms: Terms | None, expected: int | None) -> None:
    assert usd_micros(price, terms) == expected


@given(
    st.integers(0, 10**12),
    st.decimals(Decimal("0.000001"), 1000, places=6, allow_nan=False, allow_infinity=False),
)
def test_a_conversion_is_never_off_by_more_than_half_a_millionth(micros: int, rate: Decimal) -> None:
    converted = part_in_usd(micros, Price(micros, "JPY"), Terms(rate=Rate(str(rate), "2026-01-01")))
    assert converted is not None
    assert abs(converted - micros * rate) <= Decimal("0.5")


def _subscription(**changes: object) -> Subscription:
    period = Period(
        id="t1",
        number=0,
        cause=Cause.PURCHASE,
        product_id="pro",
        period_type=PeriodType.NORMAL,
        purchased_at=1_000,
        ends_at=9_000,
        as_of=Moment(1_000),
        price=Price(5_000_000, "EUR"),
    )
    status = Status(as_of=Moment(1_000))
    period = replace(period, **changes)
    return Subscription(
        store="stripe", id="s1", environment=Environment.PRODUCTION, periods=(period,), status=status, app_id=None
    )


def test_terms_and_country_stay_when_a_later_report_lacks_or_changes_them() -> None:
    before = _subscription(country="DE", terms=EUR)
    for later in (_subscription(as_of=Moment(2_000)), _subscription(as_of=Moment(2_000), country="FR", terms=Terms())):
        after = observe(before, settle(before, later, 3_000)).current
        assert (after.country, after.terms) == ("DE", EUR)


def test_a_country_that_is_told_later_is_added() -> None:
    before = _subscription()
    later = _subscription(as_of=Moment(2_000), country="DE")
    assert observe(before, settle(before, later, 3_000)).current.country == "DE"


def test_the_newest_report_says_how_much_was_given_back() -> None:
    before = _subscription(given_back=1_000_000, as_of=Moment(2_000))
    older, newer = _subscription(as_of=Moment(1_500)), _subscription(as_of=Moment(3_000), given_back=2_000_000)
    assert observe(before, settle(before, older, 3_000)).current.given_back == 1_000_000
    assert observe(before, settle(before, newer, 3_000)).current.given_back == 2_000_000


def test_a_partial_refund_read_from_a_store_without_moments_is_taken_in() -> None:
    before = _subscription()
    seen = _subscription(given_back=2_000_000)
    after = observe(before, settle(before, seen, 5_000, unordered=True))
    assert after.current.given_back == 2_000_000
    assert after.access_ends_at == before.access_ends_at


def test_the_partial_refund_of_a_one_time_purchase_leaves_it_in_place() -> None:
    bought = Purchase(
        kind=PurchaseKind.ONE_TIME,
        store="stripe",
        id="pi_1",
        product_id="coins",
        environment=Environment.PRODUCTION,
        purchased_at=1_000,
        price=Price(5_000_000, "EUR"),
        told_at=1_000,
    )
    after = observe_purchase(bought, replace(bought, given_back=1_000_000, country="DE", told_at=2_000))
    assert (after.given_back, after.country, after.access_ends_at) == (1_000_000, "DE", None)
