"""/v2/…/products/{id}/prices, and what apps see and pay of them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import json

from tests.api.client import APP, Reply, Shop
from tests.api.doings import show_receipt
from tests.api.management import delete, get, post, refused, walk

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
    made = (await put(shop, {"price": 8.99, "currency": "EUR", "store": "paddle", "country": "DE"})).json()
    assert made == {
        "object": "product.price",
        "id": "paddle.DE.EUR",
        "product_id": "pro_monthly",
        "store": "paddle",
        "country": "DE",
        "currency": "EUR",
        "price": 8.99,
    }
    await put(shop, {"price": 9, "currency": "EUR"})
    await put(shop, {"price": 9.49, "currency": "EUR"})
    assert await listed(shop) == [("-.-.EUR", 9.49), ("paddle.DE.EUR", 8.99)]
    assert (await delete(shop, f"{PATH}/-.-.EUR")).json()["id"] == "-.-.EUR"
    assert await listed(shop) == [("paddle.DE.EUR", 8.99)]
    refused(await delete(shop, f"{PATH}/-.-.EUR"), 404, "resource_missing", "price_id")


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
        ({"price": 9, "currency": "euro"}, "currency"),
        ({"price": 9, "currency": "XXX"}, "currency"),
        ({"price": 9}, "currency"),
        ({"price": -1, "currency": "EUR"}, "price"),
        ({"price": 0.0000001, "currency": "EUR"}, "price"),
        ({"price": 9, "currency": "EUR", "country": "XX"}, "country"),
        ({"price": 9, "currency": "EUR", "country": "de"}, "country"),
        ({"price": 9, "currency": "EUR", "store": "App Store"}, "store"),
        ({"price": 9, "currency": "EUR", "plan": "monthly"}, "plan"),
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
