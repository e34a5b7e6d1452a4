"""Grants and one-time purchases as V1 lists them, so that the vendor's web SDK sees access end."""

from __future__ import annotations

from latchkey.domain.customers.customer import Customer, let_time_pass
from latchkey.domain.customers.intake import take_in
from latchkey.domain.customers.promotion import DURATIONS, end_of, grant, product_of, revoke
from latchkey.domain.instants import DAY, Ms, to_iso
from latchkey.domain.purchases.purchase import TEMPORARY_ACCESS, Environment
from latchkey.domain.stores.test_store import actions
from latchkey.usecases.rendering import v1, v2
from latchkey.usecases.rendering.view import LastSeen, View
from latchkey.wire.v1 import Subscriber
from tests.domain.shop import CATALOG, NOON, PRO_LIFETIME, PRO_MONTHLY, PRO_PASS, at, bought, someone, subscribed
from tests.domain.web_sdk import active_in_web_sdk, active_subscriptions_in_web_sdk


def subscriber(customer: Customer, now: Ms) -> Subscriber:
    return v1.subscriber(View(1, customer, CATALOG, now, LastSeen(now))).subscriber


def held_in_v2(customer: Customer, now: Ms) -> dict[str, int]:
    items = v2.customer(View(1, customer, CATALOG, now, LastSeen(now))).active_entitlements.items
    return {one.entitlement_id: one.expires_at for one in items}


def outage(customer: Customer, now: Ms = NOON) -> Customer:
    given = actions.store_outage(customer, PRO_LIFETIME, now, id="meanwhile", environment=Environment.SANDBOX)
    return take_in(customer, given, now)


def test_a_grant_of_each_duration_ends_in_the_web_sdk_when_it_does() -> None:
    for duration in DURATIONS:
        ends_at = end_of(duration, NOON)
        customer = grant(someone(), "pro", ends_at, NOON, duration=duration)
        product = f"rc_promo_pro_{duration}"
        assert active_in_web_sdk(subscriber(customer, NOON), NOON) == {"pro"}
        assert active_subscriptions_in_web_sdk(subscriber(customer, NOON), NOON) == {product}
        if ends_at is not None:
            shown = subscriber(let_time_pass(customer, ends_at), ends_at)
            assert shown.subscriptions[product].expires_date == to_iso(ends_at)
            assert active_in_web_sdk(shown, ends_at) == set()


def test_no_two_grants_of_different_entitlements_share_a_product() -> None:
    entitlements = ("a", "a_two", "a_three", "a_six", "a_daily", "a_custom", "two", "three", "six")
    names = [product_of(one, duration) for one in entitlements for duration in (*DURATIONS, "custom")]
    assert len(set(names)) == len(names)


def test_of_several_grants_of_one_duration_the_one_that_ends_last_is_shown() -> None:
    first = grant(someone(), "pro", NOON + 7 * DAY, NOON, duration="weekly")
    both = grant(first, "pro", NOON + 8 * DAY, NOON + DAY, duration="weekly")
    shown = subscriber(both, NOON + DAY)
    assert shown.subscriptions["rc_promo_pro_weekly"].expires_date == to_iso(NOON + 8 * DAY)
    assert shown.subscriptions["rc_promo_pro_weekly"].purchase_date == shown.entitlements["pro"].purchase_date
    # A running grant takes the place of a revoked one.
    anew = grant(revoke(both, "pro", NOON + 2 * DAY), "pro", NOON + 3 * DAY, NOON + 2 * DAY, duration="weekly")
    shown = subscriber(anew, NOON + 2 * DAY)
    assert shown.subscriptions["rc_promo_pro_weekly"].expires_date == to_iso(NOON + 3 * DAY)
    assert shown.entitlements["pro"].expires_date == to_iso(NOON + 3 * DAY)


def test_a_revoked_grant_leaves_what_else_the_entitlement_rested_on() -> None:
    customer = take_in(someone(), subscribed(), NOON)
    customer = take_in(customer, actions.expire(customer.subscriptions[0], NOON + DAY), NOON + DAY)
    customer = revoke(grant(customer, "pro", None, NOON + 2 * DAY), "pro", NOON + 3 * DAY)
    now = NOON + 4 * DAY
    shown = subscriber(customer, now)
    assert shown.entitlements["pro"].product_identifier == PRO_MONTHLY.id
    assert active_in_web_sdk(shown, now) == active_subscriptions_in_web_sdk(shown, now) == set()


def test_a_refunded_one_time_purchase_leaves_no_entitlement_and_its_reversal_brings_it_back() -> None:
    customer = take_in(someone(), bought(), NOON)
    assert held_in_v2(customer, NOON) == {"pro": at("2226-01-15T12:00")}
    customer = take_in(customer, actions.refund(customer.purchases[0], NOON + DAY), NOON + DAY)
    shown = subscriber(customer, NOON + DAY)
    assert (shown.entitlements, list(shown.non_subscriptions)) == ({}, [PRO_LIFETIME.id])
    customer = take_in(customer, actions.reverse_refund(customer.purchases[0], NOON + DAY), NOON + DAY)
    assert active_in_web_sdk(subscriber(customer, NOON + DAY), NOON + DAY) == {"pro"}


def test_a_one_time_purchase_with_an_end_ends_in_the_web_sdk_too() -> None:
    customer = take_in(someone(), bought(PRO_PASS), NOON)
    ends_at = NOON + 10 * DAY
    for now, expected in ((NOON, {"pro"}), (ends_at - 1, {"pro"}), (ends_at, set())):
        shown = subscriber(let_time_pass(customer, now), now)
        # Both: apps look for the transaction among the one-time purchases.
        assert list(shown.non_subscriptions) == list(shown.subscriptions) == [PRO_PASS.id]
        assert active_in_web_sdk(shown, now) == held_in_v2(customer, now).keys() == expected
    customer = take_in(customer, actions.refund(customer.purchases[0], NOON + DAY), NOON + DAY)
    assert active_subscriptions_in_web_sdk(subscriber(customer, NOON + DAY), NOON + DAY) == set()


def test_a_temporary_grant_stands_under_its_product_and_ends() -> None:
    customer = outage(someone())
    shown = subscriber(customer, NOON)
    assert shown.non_subscriptions == {}
    one = shown.subscriptions[PRO_LIFETIME.id]
    # The store has not vouched for it.
    assert (one.expires_date, one.period_type, one.store) == (to_iso(NOON + TEMPORARY_ACCESS), "normal", "promotional")
    over = NOON + TEMPORARY_ACCESS
    assert active_in_web_sdk(subscriber(let_time_pass(customer, over), over), over) == set()


def test_the_purchase_that_a_temporary_grant_waited_for_takes_its_place() -> None:
    customer = take_in(outage(someone()), bought(now=NOON + 5), NOON + 5)
    now = NOON + 2 * DAY
    shown = subscriber(customer, now)
    assert shown.entitlements["pro"].expires_date is None
    assert active_in_web_sdk(shown, now) == {"pro"}
    refunded = take_in(customer, actions.refund(customer.purchases[-1], now), now)
    assert active_in_web_sdk(subscriber(refunded, now), now) == set()
