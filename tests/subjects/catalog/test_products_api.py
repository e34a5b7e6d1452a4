"""Products: made, changed and deleted, as one app sells them, and their prices."""

from typing import Any

import pytest
from msgspec import json

from latchkey.domain.refusal import Refusal
from latchkey.subjects.catalog.usecases import product_catalog
from tests.http.client import APP, DAY, NOW, Reply, Shop
from tests.http.doings import act, did, invoice, show_receipt
from tests.http.management import PRODUCT, delete, get, holds, patch, post, refused, walk


async def test_a_price_is_kept_exactly(shop: Shop) -> None:
    for price in (0, 0.000001, 0.1, 9.99, 1_000_000, 123456.789012):
        assert (await patch(shop, "products/pro_yearly", {"price": price})).json()["price"] == price


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


async def new_app(shop: Shop, store: str) -> tuple[str, str]:
    """Its id and its key."""
    made = (await post(shop, "apps", {"name": "Mine", "store": store})).json()
    return made["id"], made["public_api_key"]["key"]


async def create(shop: Shop, app_id: str, **more: Any) -> Reply:
    return await post(shop, "products", {"store_identifier": "gold", "app_id": app_id, "type": "subscription", **more})


async def offered(shop: Shop, key: str) -> set[str]:
    body = (await shop.client.get("/v1/subscribers/ada/offerings", key=key)).json()
    return {one["platform_product_identifier"] for each in body["offerings"] for one in each["packages"]}


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
        ({"app_id": None}, "app_id"),
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


PATH = "products/pro_monthly/prices"


async def put(shop: Shop, body: Any, path: str = PATH) -> Reply:
    return await shop.client.request("PUT", f"/v2/projects/{shop.project_id}/{path}", body=json.encode(body))


async def listed(shop: Shop, path: str = PATH) -> list[tuple[str, float]]:
    reply = await get(shop, path)
    assert reply.status == 200, reply
    return [(one["id"], one["price"]) for one in reply.json()["items"]]


async def seen(shop: Shop, query: str = "", who: str = "ada", **headers: str) -> tuple[int, str]:
    path = f"/rcbilling/v1/subscribers/{who}/products?id=pro_monthly{query}"
    reply = await shop.client.get(path, key=APP, headers=headers)
    assert reply.status == 200, reply
    price = reply.json()["product_details"][0]["purchase_options"]["base_option"]["base"]["price"]
    return price["amount_micros"], price["currency"]


async def test_prices_are_listed_replaced_and_deleted(shop: Shop) -> None:
    assert await listed(shop) == []
    price = {"price": 8.99, "currency": "EUR", "store": "paddle", "country": "DE"}
    named = {"object": "product.price", "id": "paddle.DE.EUR", "product_id": "pro_monthly"}
    assert (await put(shop, price)).json() == named | price
    await put(shop, {"price": 9, "currency": "EUR"})
    await put(shop, {"price": 9.49, "currency": "EUR"})
    assert await listed(shop) == [("-.-.EUR", 9.49), ("paddle.DE.EUR", 8.99)]
    assert (await delete(shop, f"{PATH}/-.-.EUR")).json()["id"] == "-.-.EUR"
    assert await listed(shop) == [("paddle.DE.EUR", 8.99)]
    refused(await delete(shop, f"{PATH}/-.-.EUR"), 404, "resource_missing", "price_id")


async def test_422_for_more_prices_than_a_product_can_have(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether they come one by one, or several together as from a store or a form."""
    monkeypatch.setattr(product_catalog, "MOST", 2)
    several = [product_catalog.listed_price(9, code, None, None) for code in ("EUR", "GBP", "JPY")]
    with pytest.raises(Refusal, match="at most 2 prices"):
        await product_catalog.set_prices(shop.database, shop.project_id, "pro_monthly", several)
    assert await listed(shop) == []
    assert [(await put(shop, {"price": 9, "currency": one.price.currency})).status for one in several] == [
        200,
        200,
        422,
    ]
    assert await listed(shop) == [("-.-.EUR", 9), ("-.-.GBP", 9)]


async def test_a_deleted_product_takes_its_prices_with_it(shop: Shop) -> None:
    await put(shop, {"price": 9, "currency": "EUR"})
    assert (await delete(shop, "products/pro_monthly")).status == 200
    refused(await get(shop, PATH), 404, "resource_missing", "product_id")
    refused(await put(shop, {"price": 9, "currency": "EUR"}), 404, "resource_missing", "product_id")
    again = {"id": "pro_monthly", "kind": "subscription", "duration": "P1M", "price": 10, "currency": "USD"}
    assert (await post(shop, "products", again)).status == 201
    assert await listed(shop) == []


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"price": 9, "currency": "XXX"}, "currency"),
        ({"price": 9, "currency": "ABC"}, "currency"),
        ({"price": 0.0000001, "currency": "EUR"}, "price"),
        ({"price": 9, "currency": "EUR", "country": "XX"}, "country"),
    ],
)
async def test_a_price_that_makes_no_sense_is_400(steady_shop: Shop, body: Any, param: str) -> None:
    refused(await put(steady_shop, body), 400, "parameter_error", param)
    assert await listed(steady_shop) == []


async def test_a_plan_is_a_product_of_its_own(shop: Shop) -> None:
    plan = {"id": "pro:yearly", "kind": "subscription", "duration": "P1Y", "price": 50, "currency": "USD"}
    assert (await post(shop, "products", plan)).status == 201
    await put(shop, {"price": 45, "currency": "EUR"}, "products/pro:yearly/prices")
    assert await listed(shop, "products/pro:yearly/prices") == [("-.-.EUR", 45)]
    assert await listed(shop) == []


async def test_a_plan_that_gets_a_product_of_its_own_takes_nothing_from_its_owners(shop: Shop) -> None:
    await invoice(shop, "ada", "team_monthly:basic")
    made = await post(shop, "products", {**PRODUCT, "id": "team_monthly:basic"})
    assert (made.status, made.json()["entitlement_ids"]) == (201, ["pro", "team"])
    assert await holds(shop, "ada") == {"pro", "team"}
    await post(shop, "entitlements/team/actions/detach_products", {"product_ids": ["team_monthly:basic"]})
    await delete(shop, "products/team_monthly:basic")
    again = await post(shop, "products", {**PRODUCT, "id": "team_monthly:basic"})
    assert again.json()["entitlement_ids"] == ["pro"]
    assert await holds(shop, "ada") == {"pro"}


async def test_apps_see_the_price_of_their_currency_and_country(shop: Shop) -> None:
    assert await seen(shop, "&currency=EUR") == (9_990_000, "USD")
    await put(shop, {"price": 9, "currency": "EUR"})
    await put(shop, {"price": 8, "currency": "EUR", "country": "DE"})
    await put(shop, {"price": 1500, "currency": "JPY", "country": "JP", "store": "test_store"})
    await put(shop, {"price": 1, "currency": "USD", "store": "paddle"})
    assert await seen(shop) == (9_990_000, "USD")
    assert await seen(shop, "&currency=EUR") == (9_000_000, "EUR")
    assert await seen(shop, "&currency=eur") == (9_000_000, "EUR")
    assert await seen(shop, "&currency=GBP") == (9_990_000, "USD")
    assert await seen(shop, **{"x-country": "DE"}) == (8_000_000, "EUR")
    assert await seen(shop, **{"x-country": "JP"}) == (1_500_000_000, "JPY")


async def test_without_a_country_in_the_request_the_last_one_of_the_customer_counts(shop: Shop) -> None:
    await put(shop, {"price": 8, "currency": "EUR", "country": "DE"})
    await shop.note("dora", plan="x")
    assert (await shop.v1("dora", headers={"x-country": "DE", "x-platform": "ios"})).status == 200
    await shop.presence.flush()
    assert await seen(shop, who="dora") == (8_000_000, "EUR")
    assert await seen(shop, who="nobody") == (9_990_000, "USD")


async def test_the_test_store_sells_at_the_price_that_it_shows(shop: Shop) -> None:
    await put(shop, {"price": 8, "currency": "EUR", "country": "DE"})
    await put(shop, {"price": 7, "currency": "GBP"})
    buyers: list[tuple[str, dict[str, Any], tuple[float, str]]] = [
        ("de", {"headers": {"x-country": "DE"}}, (8, "EUR")),
        ("gb", {"currency": "GBP"}, (7, "GBP")),
        ("us", {"currency": "USD", "price": 0.01}, (9.99, "USD")),
        ("odd", {"currency": 5}, (9.99, "USD")),
    ]
    for number, (who, more, paid) in enumerate(buyers):
        reply = await show_receipt(shop, who, f"test_180000000{number}_a", **more)
        assert reply.status == 200, reply
        (event,) = await walk(shop, f"customers/{who}/events")
        assert (event["price_in_purchased_currency"], event["currency"]) == paid
    # Other products have no listed price.
    assert (await show_receipt(shop, "de", "test_1800000009_b", "coins_100")).status == 200
