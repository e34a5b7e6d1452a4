"""Products that are made, read, changed and deleted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.api.client import DAY, NOW, Reply, Shop
from tests.api.management import PRODUCT, delete, get, holds, patch, post, walk


async def test_a_new_product_is_shown_whole(shop: Shop) -> None:
    made = await post(
        shop,
        "products",
        {**PRODUCT, "display_name": " Max ", "trial_duration": "P7D", "credits": {"code": "COIN", "amount": 5}},
    )
    assert made.status == 201
    assert (made.json()["display_name"], made.json()["credits"]) == ("Max", {"code": "COIN", "amount": 5})
    assert (await get(shop, "products/max_monthly")).json() == made.json()


async def test_a_product_without_a_name_is_called_by_its_id(shop: Shop) -> None:
    made = (await post(shop, "products", PRODUCT)).json()
    assert made["display_name"] == "max_monthly"
    assert (made["trial_duration"], made["credits"]) == (None, None)


async def test_a_price_is_kept_exactly(shop: Shop) -> None:
    for price in (0, 0.000001, 0.1, 9.99, 1_000_000, 123456.789012):
        assert (await patch(shop, "products/pro_yearly", {"price": price})).json()["price"] == price


async def test_a_product_can_be_bought_as_soon_as_it_is_made(shop: Shop) -> None:
    await post(shop, "products", PRODUCT)
    await post(shop, "entitlements/team/actions/attach_products", {"product_ids": ["max_monthly"]})
    await shop.act("purchase", "ada", "max_monthly")
    assert await holds(shop, "ada") == {"team"}


async def test_products_are_listed_by_id_page_by_page(shop: Shop) -> None:
    page = (await get(shop, "products?limit=2")).json()
    assert [item["id"] for item in page["items"]] == ["coins_100", "pro_lifetime"]
    assert page["url"] == "/v2/projects/proj_demo/products"
    assert page["next_page"] == "/v2/projects/proj_demo/products?limit=2&starting_after=pro_lifetime"
    everything = await walk(shop, "products?limit=2")
    assert [item["id"] for item in everything] == [
        "coins_100",
        "pro_lifetime",
        "pro_monthly",
        "pro_yearly",
        "team_monthly",
    ]
    assert everything[-1]["entitlement_ids"] == ["pro", "team"]
    assert (await get(shop, "products")).json()["next_page"] is None


@pytest.mark.parametrize("method", [patch, post])
async def test_what_is_named_changes_and_the_rest_stays(shop: Shop, method: Callable[..., Awaitable[Reply]]) -> None:
    before = (await get(shop, "products/pro_monthly")).json()
    changed = await method(shop, "products/pro_monthly", {"price": 12, "trial_duration": None})
    assert changed.status == 200
    terms = {**before["subscription"], "trial_duration": None}
    assert changed.json() == {**before, "price": 12.0, "trial_duration": None, "subscription": terms}
    assert (await get(shop, "products/pro_monthly")).json() == changed.json()


async def test_a_change_of_nothing_changes_nothing(shop: Shop) -> None:
    before = (await get(shop, "products/coins_100")).json()
    assert (await patch(shop, "products/coins_100", {})).json() == before


async def test_a_running_subscription_keeps_the_price_it_was_bought_at(shop: Shop) -> None:
    await shop.act("purchase", "ada", "pro_monthly")
    await patch(shop, "products/pro_monthly", {"price": 99})
    shop.clock.now += 31 * DAY
    await shop.act("purchase", "bob", "pro_monthly")
    rows = await shop.database.pool.fetch("select body from events order by position")
    prices = [row["body"].decode().split('"price":')[1].split(",")[0] for row in rows]
    assert prices[0] == "9.99"
    assert prices[-1] == "99.0"


async def test_a_deleted_product_is_gone_and_cannot_be_bought(shop: Shop) -> None:
    reply = await delete(shop, "products/pro_yearly")
    assert reply.status == 200
    assert reply.json() == {"object": "product", "id": "pro_yearly", "deleted_at": NOW}
    assert (await get(shop, "products/pro_yearly")).status == 404
    assert "pro_yearly" not in {item["id"] for item in await walk(shop, "products")}
    with pytest.raises(Exception, match="There is no product 'pro_yearly'"):
        await shop.act("purchase", "ada", "pro_yearly")


async def test_those_who_hold_a_deleted_product_keep_what_it_grants_and_their_subscription_goes_on(shop: Shop) -> None:
    await shop.act("purchase", "ada", "team_monthly")
    await delete(shop, "products/team_monthly")
    assert await holds(shop, "ada") == {"pro", "team"}
    shop.clock.now += 40 * DAY
    await shop.act("cancel", "ada", "team_monthly")
    assert await holds(shop, "ada") == {"pro", "team"}


async def test_a_deleted_product_still_shows_where_it_still_grants(shop: Shop) -> None:
    await delete(shop, "products/team_monthly")
    [shown] = await walk(shop, "entitlements/team/products")
    assert (shown["id"], shown["deleted_at"]) == ("team_monthly", NOW)


async def test_a_deleted_product_can_be_made_again_and_grants_what_it_did(shop: Shop) -> None:
    await shop.act("purchase", "ada", "pro_monthly")
    await delete(shop, "products/pro_monthly")
    again = await post(shop, "products", {**PRODUCT, "id": "pro_monthly"})
    assert again.status == 201
    assert again.json()["entitlement_ids"] == ["pro"]
    assert again.json()["price"] == 19.99
    assert "deleted_at" not in again.json()
    assert await holds(shop, "ada") == {"pro"}
