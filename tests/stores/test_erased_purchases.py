"""What had ended stays ended when its customer is erased, and what is signed long ago is asked about: no old receipt
brings access back, and none that is paid for is lost."""

import asyncio
from typing import Any

import pytest

from latchkey.domain.instants import DAY, HOUR, MINUTE
from tests.http.client import Reply
from tests.stores.world import PRODUCTS, PROJECT, World

pytestmark = pytest.mark.thorough

BUYER = "6f1c2d1e-0000-4000-8000-00000000ada1"
DOWN: dict[str, Any] = {"kind": "error", "status": 503}
AWAY = [pytest.param({}, id="asked"), pytest.param(DOWN, id="not asked")]


async def erase(world: World, app_user_id: str, version: str = "v2") -> None:
    path = f"/v1/subscribers/{app_user_id}" if version == "v1" else f"/v2/projects/{PROJECT}/customers/{app_user_id}"
    reply = await world.client.request("DELETE", path)
    assert reply.status == 200, reply


async def show(world: World, receipt: dict[str, Any], app_user_id: str = "eve") -> Reply:
    return await world.client.post("/v1/receipts", {**receipt, "app_user_id": app_user_id}, key=world.public_key)


async def bought(world: World, product_id: str, **more: Any) -> tuple[str, dict[str, Any]]:
    """A purchase of a known customer, and a receipt that was signed at once."""
    purchase = world.store.sell(product_id=product_id, buyer="ada", account_token=BUYER, **more)
    receipt = world.store.receipt(purchase)
    await world.settle()
    assert await world.access(BUYER) == {"pro"}
    return purchase, receipt


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("product_id", ["pro_lifetime", "pro_monthly"])
@pytest.mark.parametrize("refunded", ["before", "after"])
@pytest.mark.parametrize("late", [0, 2 * HOUR], ids=["young", "old"])
async def test_what_was_refunded_before_or_after_its_customer_was_erased_does_not_come_back(
    apple: World, version: str, product_id: str, refunded: str, late: int
) -> None:
    purchase, receipt = await bought(apple, product_id)
    if refunded == "before":
        await apple.act(purchase, "refund")
    await erase(apple, BUYER, version)
    if refunded == "after":
        await apple.act(purchase, "refund")
    apple.store.clock.reach(apple.now + late)
    # Also while Apple cannot be asked.
    apple.store.misbehave(api=DOWN)
    for user in ("eve", BUYER):
        assert (await show(apple, receipt, user)).status == 200
        assert await apple.access(user) == set()
        assert "TEMPORARY_ENTITLEMENT_GRANT" not in await apple.types(user)
    kept = await apple.database.pool.fetch("select t::text from purchase_endings t")
    assert len(kept) == 1
    assert "ada" not in str(kept), "no person is named"


async def test_no_store_brings_back_what_it_has_refunded(market: World) -> None:
    purchase = market.store.sell(product_id=PRODUCTS[market.store.name], buyer="ada", account_token=BUYER)
    receipt = market.store.receipt(purchase)
    await market.settle()
    assert await market.access(BUYER) == {"pro"}
    await market.act(purchase, "refund")
    await erase(market, BUYER)
    assert (await show(market, receipt)).status == 200
    assert await market.access("eve") == set()


@pytest.mark.parametrize("fault", AWAY)
async def test_the_end_of_family_sharing_stays_the_end(apple: World, fault: dict[str, Any]) -> None:
    purchase, receipt = await bought(apple, "pro_monthly", family=True)
    await apple.act(purchase, "end_family_sharing")
    await erase(apple, BUYER)
    apple.store.misbehave(api=fault or None)
    assert (await show(apple, receipt)).status == 200
    assert await apple.access("eve") == set()


@pytest.mark.parametrize("product_id", ["pro_lifetime", "pro_monthly"])
@pytest.mark.parametrize("late", [0, 2 * HOUR], ids=["young", "old"])
async def test_what_nobody_took_back_comes_back_with_its_receipt(apple: World, product_id: str, late: int) -> None:
    _, receipt = await bought(apple, product_id)
    await erase(apple, BUYER)
    apple.store.clock.reach(apple.now + late)
    replies = await asyncio.gather(*(show(apple, receipt, user) for user in ("eve", "bob", "cat")))
    assert {reply.status for reply in replies} == {200}
    assert sorted([await apple.access(user) for user in ("eve", "bob", "cat")], key=len) == [set(), set(), {"pro"}]


async def test_a_refund_that_was_reversed_after_the_erasure_gives_access_again(apple: World) -> None:
    purchase, old = await bought(apple, "pro_lifetime")
    await apple.act(purchase, "refund")
    await erase(apple, BUYER)
    await apple.act(purchase, "reverse_refund")
    assert (await show(apple, old)).status == 200
    assert await apple.access("eve") == set(), "signed before the refund"
    assert (await show(apple, apple.store.receipt(purchase))).status == 200
    assert await apple.access("eve") == {"pro"}


async def test_a_period_that_was_bought_after_the_refund_counts(apple: World) -> None:
    purchase, old = await bought(apple, "pro_monthly")
    await apple.act(purchase, "refund")
    await erase(apple, BUYER)
    await apple.move(apple.now + 2 * DAY, every=DAY)
    assert apple.store.sell(product_id="pro_monthly", buyer="ada") == purchase
    new = apple.store.receipt(purchase)
    await apple.settle()
    apple.store.clock.reach(apple.now + 2 * HOUR)
    apple.store.misbehave(api=DOWN)
    assert (await show(apple, new)).status == 200
    assert await apple.types("eve") == ["TEMPORARY_ENTITLEMENT_GRANT"], "nobody knows that it has ended"
    apple.store.behave()
    assert (await show(apple, old)).status == 200
    assert (await show(apple, new)).status == 200
    assert await apple.access("eve") == {"pro"}


async def test_a_purchase_that_was_handed_on_before_the_erasure_stays_where_it_is(apple: World) -> None:
    purchase, receipt = await bought(apple, "pro_lifetime")
    assert (await show(apple, receipt, "bob")).status == 200
    await erase(apple, BUYER)
    assert await apple.access("bob") == {"pro"}
    await apple.act(purchase, "refund")
    await erase(apple, "bob")
    assert (await show(apple, receipt)).status == 200
    assert await apple.access("eve") == set()


@pytest.mark.parametrize("product_id", ["pro_lifetime", "pro_monthly"])
@pytest.mark.parametrize("refunded", [True, False])
async def test_a_receipt_that_was_signed_long_ago_and_is_new_here_is_asked_about_once(
    apple: World, product_id: str, refunded: bool
) -> None:
    apple.store.misbehave(drop=1.0)
    purchase = apple.store.sell(product_id=product_id, buyer="ada")
    receipt = apple.store.receipt(purchase)
    if refunded:
        apple.store.act(purchase, "refund")
    apple.store.clock.reach(apple.now + 2 * HOUR)
    assert (await show(apple, receipt)).status == 200
    assert await apple.access("eve") == (set() if refunded else {"pro"})
    # It is known now, so Apple need not be there.
    apple.store.misbehave(api=DOWN)
    assert (await show(apple, receipt)).status == 200
    assert await apple.access("eve") == (set() if refunded else {"pro"})


@pytest.mark.parametrize("refunded", [True, False])
async def test_while_apple_is_away_an_old_receipt_gives_a_day_and_then_what_apple_says(
    apple: World, refunded: bool
) -> None:
    apple.store.misbehave(drop=1.0, api=DOWN)
    purchase = apple.store.sell(product_id="pro_lifetime", buyer="ada")
    receipt = apple.store.receipt(purchase)
    if refunded:
        apple.store.act(purchase, "refund")
    apple.store.clock.reach(apple.now + 2 * HOUR)
    dearer = {**receipt, "product_id": "team_monthly", "product_ids": ["team_monthly"]}
    assert (await show(apple, dearer)).status == 503, "only what was signed"
    assert (await show(apple, receipt)).status == 200
    assert await apple.types("eve") == ["TEMPORARY_ENTITLEMENT_GRANT"]
    apple.store.misbehave(drop=1.0)
    await apple.move(apple.now + 30 * MINUTE, every=10 * MINUTE)
    assert await apple.access("eve") == (set() if refunded else {"pro"})
    told = ["TEMPORARY_ENTITLEMENT_GRANT", "NON_RENEWING_PURCHASE", "REFUND"]
    assert await apple.types("eve") == (told if refunded else told[:2])


async def test_an_old_receipt_of_a_subscription_that_ran_out_gives_not_even_a_day(apple: World) -> None:
    apple.store.misbehave(drop=1.0)
    purchase = apple.store.sell(product_id="pro_monthly", buyer="ada")
    receipt = apple.store.receipt(purchase)
    apple.store.act(purchase, "cancel")
    await apple.move(apple.now + 40 * DAY)
    apple.store.misbehave(api=DOWN)
    assert (await show(apple, receipt)).status == 503
    apple.store.behave()
    assert (await show(apple, receipt)).status == 200
    assert await apple.access("eve") == set()


async def test_an_answer_of_apples_without_the_purchase_gives_nothing_and_keeps_the_receipt(apple: World) -> None:
    apple.store.misbehave(drop=1.0)
    receipt = apple.store.receipt(apple.store.sell(product_id="pro_lifetime", buyer="ada"))
    apple.store.clock.reach(apple.now + 2 * HOUR)
    apple.store.misbehave(api={"kind": "truncated"})
    assert (await show(apple, receipt)).status == 503
    assert await apple.types("eve") == []
    apple.store.behave()
    await apple.move(apple.now + 10 * MINUTE, every=MINUTE)
    assert await apple.access("eve") == {"pro"}
