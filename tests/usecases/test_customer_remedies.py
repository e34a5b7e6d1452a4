"""The remedies that are offered for a purchase are exactly those that the use cases would carry out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from latchkey.domain.customers.customer import with_purchase, with_subscription
from latchkey.domain.customers.promotion import grant
from latchkey.domain.instants import DAY
from latchkey.domain.refusal import Refusal
from latchkey.stores.test_store import actions
from latchkey.usecases.customers.remedies import Remedies, extend, refund, remedies
from tests.domain.shop import COINS, NOON, bought, someone, subscribed
from tests.usecases.conftest import Shop

SUB = ("test_store", "sub")


def test_a_running_subscription_of_the_test_store_can_be_refunded_and_extended() -> None:
    customer = with_subscription(someone(), subscribed())
    assert remedies(customer, NOON)[SUB] == Remedies(refund=True, extend=True)
    assert remedies(customer, NOON + 99 * DAY)[SUB] == Remedies(refund=True)


def test_a_trial_has_no_money_to_give_back_and_a_refund_is_given_once() -> None:
    assert remedies(with_subscription(someone(), subscribed(trial=True)), NOON)[SUB] == Remedies(extend=True)
    customer = with_subscription(someone(), subscribed())
    done = actions.refund(customer.subscriptions[0], NOON)
    assert remedies(replace(customer, subscriptions=(done,)), NOON)[SUB] == Remedies()  # type: ignore[arg-type]  # of a subscription


def test_another_stores_purchases_are_dealt_with_there() -> None:
    customer = with_subscription(someone(), replace(subscribed(), store="app_store"))
    customer = with_purchase(customer, replace(bought(), store="play_store"))
    found = remedies(customer, NOON)
    assert found["app_store", "sub"] == Remedies(elsewhere="To refund or extend it, use the store: app_store.")
    assert found["play_store", "one"] == Remedies(elsewhere="To refund it, use the store: play_store.")


def test_of_several_purchases_of_a_product_the_newest_can_be_refunded() -> None:
    customer = with_purchase(someone(), bought(COINS, NOON, id="old"))
    customer = with_purchase(customer, bought(COINS, NOON + DAY, id="new"))
    found = remedies(customer, NOON + DAY)
    assert (found["test_store", "old"].refund, found["test_store", "new"].refund) == (False, True)


def test_a_running_grant_can_be_revoked() -> None:
    customer = grant(someone(), "team", NOON + DAY, NOON)
    [one] = remedies(customer, NOON).values()
    [later] = remedies(customer, NOON + DAY).values()
    assert (one, later) == (Remedies(revoke=True), Remedies())


async def test_what_is_not_offered_is_refused_and_nothing_else_is_refunded_instead(shop: Shop) -> None:
    await shop.show("alice", "test_1_old", "coins_100")
    shop.time += 1
    made = await shop.show("alice", "test_1_new", "coins_100")
    with pytest.raises(Refusal):
        await refund(shop.changes, made.customer, ("test_store", "test_1_old"), shop.time)
    with pytest.raises(Refusal):
        await extend(shop.changes, made.customer, ("test_store", "test_1_new"), shop.time, by=DAY)
    assert "REFUND" not in await shop.told()
    done = await refund(shop.changes, made.customer, ("test_store", "test_1_new"), shop.time)
    purchase = done.customer.purchase("test_store", "test_1_new")
    assert purchase is not None
    assert purchase.refunded_at == shop.time
