"""What a consumer that follows the specification's table makes of Stripe's lives, beside how they stand."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from latchkey.consumer.rules.customer_snapshot import SubscriptionState, state_after_event
from latchkey.domain.events.event import EventType
from latchkey.domain.instants import DAY, HOUR
from latchkey.stores.adapter import ConnectedApp
from latchkey.stores.stripe.adapter import StripeAdapter
from tests.stores.google.life import Life
from tests.stores.stripe.account import MONTH, START, event
from tests.stores.stripe.shop import Shop
from tests.stores.stripe.steps import TRIAL, UPDATED
from tests.stores.stripe.test_table import hear

# What an event of each type says, as long as there is access. The last of a change has the last word.
SAYS = {
    EventType.BILLING_ISSUE: "billing_issue",
    EventType.SUBSCRIPTION_PAUSED: "paused",
    EventType.CANCELLATION: "cancelled",
}


def renew(paid: bool) -> Callable[[Shop], None]:
    def it(shop: Shop) -> None:
        shop.now = max(shop.now, shop.item["current_period_end"] * 1000 + HOUR)
        shop.renew(paid=paid)

    return it


ACTS: dict[str, tuple[Callable[[Shop], object], Callable[[Shop], bool]]] = {
    # What happens, and when it can.
    "renew": (renew(paid=True), lambda shop: shop.sub["status"] != "past_due"),
    "fail": (renew(paid=False), lambda shop: True),
    "pay": (Shop.pay, lambda shop: shop.sub["status"] == "past_due"),
    "cancel": (Shop.cancel, lambda shop: not shop.sub["cancel_at_period_end"]),
    "uncancel": (Shop.uncancel, lambda shop: bool(shop.sub["cancel_at_period_end"])),
    "upgrade": (Shop.upgrade, lambda shop: shop.item["price"]["product"] == "prod_pro"),
    "upgrade later": (Shop.upgrade_later_paid, lambda shop: shop.item["price"]["product"] == "prod_pro"),
    "pause": (Shop.pause, lambda shop: shop.sub["pause_collection"] is None),
    "resume": (Shop.resume, lambda shop: shop.sub["pause_collection"] is not None),
    "refund": (Shop.refund, lambda shop: any(one["status"] == "succeeded" for one in shop.charges)),
}


@pytest.mark.parametrize("seed", range(150))
async def test_the_last_event_of_a_change_leaves_the_consumer_where_the_subscription_stands(
    stripe: StripeAdapter, app: ConnectedApp, shop: Shop, seed: int
) -> None:
    dice = random.Random(seed)
    life, state, number = Life(stripe, app, lambda: shop.now), SubscriptionState(None), 0
    shop.now = START
    shop.subscribe(trial=dice.choice([0, TRIAL]))
    for _ in range(12):
        # Some of what happens is heard of late, and then at once.
        for _ in range(dice.choice([1, 1, 1, 2, 3])):
            shop.now += dice.choice([HOUR, DAY, MONTH // 4])
            can = [happens for happens, may in ACTS.values() if may(shop)]
            dice.choice(can)(shop)
        await hear(life, shop, event(UPDATED, shop.sub, shop.now))
        told, number = [*life.told.values()][number:], len(life.told)
        for one in told:
            state = state_after_event(one.type, life.has_access(), state)
        stands = [SAYS[one.type] for one in told if one.type in SAYS]
        if told and not life.has_access():
            assert state.subscription_status == "expired"
        elif stands:
            assert state.subscription_status == stands[-1], told
            assert state.billing_issue or stands[-1] != "billing_issue"
        issued = {one.transaction_id: place for place, one in enumerate(told) if one.type is EventType.INVOICE_ISSUANCE}
        assert all(issued.get(one.transaction_id, place) <= place for place, one in enumerate(told)), told
        assert [one.at for one in told] == sorted(one.at for one in told)
