"""Items that are taken out of a subscription, and items that replace others."""

from __future__ import annotations

import pytest

from latchkey.domain.events.event import EventType
from latchkey.domain.instants import DAY
from latchkey.domain.purchases.purchase import Reason
from tests.stores.google.life import Life
from tests.stores.stripe.account import MONTH, event
from tests.stores.stripe.shop import CHARGED, END, Shop
from tests.stores.stripe.steps import BASIC, BOTH, BOUGHT, MAX, MID, PRO, RENEWED, UPDATED, at, nothing, subscription
from tests.stores.stripe.test_table import hear


@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("credit", ["later", "at once", "none"])
async def test_an_item_that_is_removed_ends_there_and_its_credit_lowers_what_the_rest_costs(
    life: Life, shop: Shop, position: int, credit: str
) -> None:
    for happens, type, about in (
        BOTH,
        (at(MID, Shop.remove_item, position, credit=credit), UPDATED, subscription),
        (at(MID + DAY, nothing), UPDATED, subscription),
        RENEWED,
    ):
        happens(shop)
        await hear(life, shop, event(type, about(shop), shop.now))
    ends = {one.current.product_id: (one.access_ends_at, one.status.ended) for one in life.customer.subscriptions}
    gone, kept = ("pro", "extra") if position == 0 else ("extra", "pro")
    assert ends == {
        f"prod_{gone}:price_{gone}_monthly": (MID, Reason.UNSUBSCRIBE),
        f"prod_{kept}:price_{kept}_monthly": (END + MONTH, None),
    }
    money = sum(period.price.micros for one in life.customer.subscriptions for period in one.periods)
    assert money == sum(one["amount"] for one in shop.charges) * 10_000
    told = [one.type for one in life.told.values()]
    issued = sum(one["total"] > 0 for one in shop.invoices)
    assert (told.count(EventType.INVOICE_ISSUANCE), told.count(EventType.EXPIRATION)) == (issued, 1)


@pytest.mark.parametrize("credit", ["later", "none"])
async def test_an_item_that_replaces_another_in_one_request_is_the_same_subscription(
    life: Life, shop: Shop, credit: str
) -> None:
    for happens, type, about in (
        BOUGHT,
        (at(MID, Shop.replace_item, credit=credit), UPDATED, subscription),
        RENEWED,
        (at(CHARGED + DAY, Shop.replace_item, 0, "basic", credit=credit), UPDATED, subscription),
    ):
        happens(shop)
        await hear(life, shop, event(type, about(shop), shop.now))
    assert [one.product_id for one in life.subscription.periods] == [PRO, MAX, MAX, BASIC]
    assert life.subscription.status.ended is None
