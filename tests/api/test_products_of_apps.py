"""Products as one app sells them, and which apps sell which product."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import Reply, Shop
from tests.api.doings import act, did
from tests.api.management import delete, get, patch, post, refused, walk


async def new_app(shop: Shop, store: str) -> tuple[str, str]:
    """Its id and its key."""
    made = (await post(shop, "apps", {"name": "Mine", "store": store})).json()
    return made["id"], made["public_api_key"]["key"]


async def create(shop: Shop, app_id: str, **more: Any) -> Reply:
    return await post(shop, "products", {"store_identifier": "gold", "app_id": app_id, "type": "subscription", **more})


async def offered(shop: Shop, key: str) -> set[str]:
    body = (await shop.client.get("/v1/subscribers/ada/offerings", key=key)).json()
    return {one["platform_product_identifier"] for each in body["offerings"] for one in each["packages"]}


async def test_201_for_a_product_of_one_app(shop: Shop) -> None:
    app_id, _ = await new_app(shop, "app_store")
    reply = await create(shop, app_id, display_name="Gold")
    assert reply.status == 201
    assert (reply.json()["app_ids"], reply.json()["duration"], reply.json()["price"]) == ([app_id], None, 0.0)
    assert (await get(shop, "products/gold")).json() == reply.json()
    # Its other terms can be set.
    changed = await patch(shop, "products/gold", {"price": 5, "currency": "EUR"})
    assert (changed.status, changed.json()["price"]) == (200, 5.0)


@pytest.mark.parametrize(("type", "consumable"), [("one_time", True), ("consumable", True), ("non_consumable", False)])
async def test_the_type_says_whether_it_is_consumable(shop: Shop, type: str, consumable: bool) -> None:
    made = (await create(shop, "app_demo", type=type)).json()
    assert (made["type"], made["kind"], made["one_time"]) == (type, "one_time", {"is_consumable": consumable})
    assert made["subscription"] is None


async def test_201_for_the_same_product_in_another_app(shop: Shop) -> None:
    one, _ = await new_app(shop, "app_store")
    two, _ = await new_app(shop, "play_store")
    await create(shop, one, display_name="Gold")
    shop.clock.now += 1
    reply = await create(shop, two, display_name="Another name")
    assert (reply.status, reply.json()["id"], reply.json()["app_id"]) == (201, "gold", two)
    assert (reply.json()["app_ids"], reply.json()["display_name"]) == ([one, two], "Gold")
    assert (await get(shop, "products/gold")).json()["app_id"] == one


async def test_409_for_a_product_that_the_app_sells_already(shop: Shop) -> None:
    one, _ = await new_app(shop, "app_store")
    await create(shop, one)
    refused(await create(shop, one), 409, "resource_already_exists", "store_identifier")
    everywhere = await create(shop, one, store_identifier="pro_monthly")
    refused(everywhere, 409, "resource_already_exists", "store_identifier")


async def test_409_for_another_type_in_another_app(shop: Shop) -> None:
    one, _ = await new_app(shop, "app_store")
    await create(shop, one)
    refused(await create(shop, "app_demo", type="consumable"), 409, "resource_already_exists", "type")


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"type": "rental"}, "type"),
        ({"app_id": ""}, "app_id"),
        ({"app_id": None}, "app_id"),
        ({"store_identifier": "a b"}, "store_identifier"),
        ({"store_identifier": "rc_promo_x"}, "id"),
        ({"price": 5}, "price"),
        ({"id": "gold"}, "id"),
        ({"subscription": {"duration": "a month"}}, "subscription.duration"),
        ({"subscription": {"length": "P1M"}}, "subscription.length"),
        # The demo's app is in the test store, which has to know how long a subscription lasts.
        ({"subscription": None}, "subscription.duration"),
    ],
)
async def test_400(steady_shop: Shop, change: dict[str, Any], param: str) -> None:
    body = {"subscription": {"duration": "P1M"}, "title": "Gold", **change}
    refused(await create(steady_shop, body.pop("app_id", "app_demo"), **body), 400, "parameter_error", param)
    refused(await get(steady_shop, "products/gold"), 404, "resource_missing", "product_id")


async def test_400_for_a_form_that_is_not_whole(steady_shop: Shop) -> None:
    shop = steady_shop
    refused(await post(shop, "products", {}), 400, "parameter_error", "id")
    refused(await post(shop, "products", {"store_identifier": "x"}), 400, "parameter_error", "app_id")
    own = {"id": "x", "price": 1, "currency": "USD"}
    refused(await post(shop, "products", own), 400, "parameter_error", "kind")
    refused(await post(shop, "products", {**own, "kind": "one_time", "title": "x"}), 400, "parameter_error", "title")
    mixed = {**own, "kind": "one_time", "type": "subscription"}
    refused(await post(shop, "products", mixed), 400, "parameter_error", "type")
    other = await patch(shop, "products/coins_100", {"type": "subscription"})
    refused(other, 400, "parameter_error", "type")


async def test_404_for_an_unknown_app(steady_shop: Shop) -> None:
    shop = steady_shop
    refused(await create(shop, "none"), 404, "resource_missing", "app_id")
    refused(await get(shop, "products?app_id=none"), 404, "resource_missing", "app_id")
    refused(await patch(shop, "products/coins_100", {"app_ids": ["none"]}), 404, "resource_missing", "app_ids")


async def test_200_for_the_products_of_an_app(shop: Shop) -> None:
    one, _ = await new_app(shop, "app_store")
    await create(shop, one)
    await patch(shop, "products/coins_100", {"app_ids": ["app_demo"]})
    everywhere = ["pro_lifetime", "pro_monthly", "pro_yearly", "team_monthly"]
    mine = await walk(shop, f"products?app_id={one}&limit=2")
    assert [item["id"] for item in mine] == ["gold", *everywhere]
    assert {item["app_id"] for item in mine} == {one}
    demo = await walk(shop, "products?app_id=app_demo&limit=2")
    assert [item["id"] for item in demo] == ["coins_100", *everywhere]


async def test_200_with_the_app_inside(shop: Shop) -> None:
    app = (await get(shop, "apps/app_demo")).json()
    assert (await get(shop, "products/coins_100?expand=app")).json()["app"] == app
    listed = (await get(shop, "products?expand=items.app")).json()["items"]
    assert all(item["app"] == app for item in listed)
    assert "app" not in (await get(shop, "products/coins_100")).json()


async def test_an_app_shows_only_what_it_sells(shop: Shop) -> None:
    app_id, key = await new_app(shop, "app_store")
    assert "coins_100" in await offered(shop, key)
    await patch(shop, "products/coins_100", {"app_ids": ["app_demo"]})
    assert "coins_100" not in await offered(shop, key)
    assert "coins_100" in await offered(shop, shop.public)
    await patch(shop, "products/coins_100", {"app_ids": []})
    assert "coins_100" in await offered(shop, key)
    # A deleted app takes its products with it: they are not suddenly sold in every other app.
    await patch(shop, "products/coins_100", {"app_ids": [app_id]})
    await delete(shop, f"apps/{app_id}")
    assert "coins_100" not in await offered(shop, shop.public)
    assert (await get(shop, "products/coins_100")).json()["app_id"] == "app_demo"
    assert (await patch(shop, "products/coins_100", {"price": 3})).status == 200


async def test_a_type_can_be_changed_within_its_kind(shop: Shop) -> None:
    changed = (await patch(shop, "products/pro_lifetime", {"type": "consumable"})).json()
    assert (changed["type"], changed["one_time"]) == ("consumable", {"is_consumable": True})


async def test_the_test_store_sells_no_subscription_without_a_duration(shop: Shop) -> None:
    app_id, _ = await new_app(shop, "app_store")
    await create(shop, app_id)
    reply = await act(shop, "purchase", "ada", "gold")
    refused(reply, 422, "unprocessable_entity_error", "product_id")
    await did(shop, "purchase", "bob", "pro_monthly")
    reply = await act(shop, "change_product", "bob", "pro_monthly", new_product_id="gold")
    refused(reply, 422, "unprocessable_entity_error", "new_product_id")
    await patch(shop, "products/gold", {"duration": "P1M"})
    await did(shop, "purchase", "ada", "gold")


async def test_entitlements_in_the_form_of_the_vendor(shop: Shop) -> None:
    made = await post(shop, "entitlements", {"lookup_key": "gold", "display_name": "Gold"})
    assert (made.status, made.json()["id"], made.json()["lookup_key"]) == (201, "gold", "gold")
    taken = await post(shop, "entitlements", {"lookup_key": "gold", "display_name": "Gold"})
    assert taken.status == 409
    whole = (await get(shop, "entitlements/team?expand=product")).json()["products"]
    assert whole == (await get(shop, "entitlements/team/products")).json()
    listed = (await get(shop, "entitlements?expand=items.product")).json()["items"]
    assert [len(item["products"]["items"]) for item in listed] == [0, 4, 1]
    assert "products" not in (await get(shop, "entitlements/team")).json()
    refused(await get(shop, "entitlements/team?expand=products"), 400, "parameter_error", "expand.0")
