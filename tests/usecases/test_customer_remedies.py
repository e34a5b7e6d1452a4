"""The remedies that are offered for a purchase are exactly those that the use cases would carry out."""

from __future__ import annotations

from msgspec.structs import replace

from latchkey.domain.customers.customer import with_purchase, with_subscription
from latchkey.domain.customers.promotion import grant
from latchkey.domain.instants import DAY
from latchkey.domain.stores.test_store import actions
from latchkey.usecases.customers.profile import Remedies, remedies
from tests.domain.shop import NOON, bought, someone, subscribed

SUB = ("test_store", "sub")


def test_a_running_subscription_of_the_test_store_can_be_refunded_and_extended() -> None:
    customer = with_subscription(someone(), subscribed())
    assert remedies(customer, NOON)[SUB] == Remedies(refund=True, cancel=True, extend=True)
    assert remedies(customer, NOON + 99 * DAY)[SUB] == Remedies(refund=True)


def test_a_trial_has_no_money_to_give_back_and_a_refund_is_given_once() -> None:
    assert remedies(with_subscription(someone(), subscribed(trial=True)), NOON)[SUB] == Remedies(
        cancel=True, extend=True
    )
    customer = with_subscription(someone(), subscribed())
    done = actions.refund(customer.subscriptions[0], NOON)
    assert remedies(replace(customer, subscriptions=(done,)), NOON)[SUB] == Remedies()


def test_google_and_stripe_are_asked_and_apples_customers_ask_apple() -> None:
    customer = with_subscription(someone(), replace(subscribed(), store="app_store"))
    customer = with_subscription(customer, replace(subscribed(), store="stripe"))
    customer = with_purchase(customer, replace(bought(), store="play_store"))
    found = remedies(customer, NOON)
    assert found["stripe", "sub"] == Remedies(refund=True, cancel=True, extend=True)
    assert found["play_store", "one"] == Remedies(refund=True)
    elsewhere = found["app_store", "sub"].elsewhere
    assert elsewhere is not None
    assert elsewhere.refund_url is not None


def test_a_running_grant_can_be_revoked() -> None:
    customer = grant(someone(), "team", NOON + DAY, NOON)
    [one] = remedies(customer, NOON).values()
    [later] = remedies(customer, NOON + DAY).values()
    assert (one, later) == (Remedies(revoke=True), Remedies())
