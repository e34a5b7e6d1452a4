"""Grants and one-time purchases as V1 lists them, so that the vendor's web SDK sees access end."""

from latchkey.domain.customers.customer import Customer, LastSeen, let_time_pass
from latchkey.domain.customers.intake import take_in
from latchkey.domain.customers.promotion import DURATIONS, grant, product_of, revoke
from latchkey.domain.instants import DAY, Ms, to_iso
from latchkey.domain.purchases.purchase import TEMPORARY_ACCESS, Environment
from latchkey.domain.stores.test_store import actions
from latchkey.engine.reads import CustomerView
from latchkey.subjects.customers.render import customer_v2 as v2
from latchkey.subjects.customers.render import subscriber_v1 as v1
from latchkey.wire.v1 import Subscriber
from tests.domain.shop import CATALOG, NOON, PRO_LIFETIME, at, bought, someone
from tests.domain.web_sdk import active_in_web_sdk


def subscriber(customer: Customer, now: Ms) -> Subscriber:
    return v1.subscriber(CustomerView(1, customer, CATALOG, now, LastSeen(now))).subscriber


def held_in_v2(customer: Customer, now: Ms) -> dict[str, int]:
    items = v2.customer(CustomerView(1, customer, CATALOG, now, LastSeen(now))).active_entitlements.items
    return {one.entitlement_id: one.expires_at for one in items}


def outage(customer: Customer, now: Ms = NOON) -> Customer:
    given = actions.store_outage(customer, PRO_LIFETIME, now, id="meanwhile", environment=Environment.SANDBOX)
    return take_in(customer, given, now)


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


def test_a_refunded_one_time_purchase_leaves_no_entitlement_and_its_reversal_brings_it_back() -> None:
    customer = take_in(someone(), bought(), NOON)
    assert held_in_v2(customer, NOON) == {"pro": at("2226-01-15T12:00")}
    customer = take_in(customer, actions.refund(customer.purchases[0], NOON + DAY), NOON + DAY)
    shown = subscriber(customer, NOON + DAY)
    assert (shown.entitlements, list(shown.non_subscriptions)) == ({}, [PRO_LIFETIME.id])
    customer = take_in(customer, actions.reverse_refund(customer.purchases[0], NOON + DAY), NOON + DAY)
    assert active_in_web_sdk(subscriber(customer, NOON + DAY), NOON + DAY) == {"pro"}


def test_a_temporary_grant_stands_under_its_product_and_ends() -> None:
    customer = outage(someone())
    shown = subscriber(customer, NOON)
    assert shown.non_subscriptions == {}
    one = shown.subscriptions[PRO_LIFETIME.id]
    # The store has not vouched for it.
    assert (one.expires_date, one.period_type, one.store) == (to_iso(NOON + TEMPORARY_ACCESS), "normal", "promotional")
    over = NOON + TEMPORARY_ACCESS
    assert active_in_web_sdk(subscriber(let_time_pass(customer, over), over), over) == set()
