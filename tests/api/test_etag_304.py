"""`X-RevenueCat-ETag` and `X-RevenueCat-Request-Time`, as the native SDKs use them."""

from __future__ import annotations

import pytest

from tests.api.client import APP, DAY, NOW, Shop
from tests.api.doings import advance, make_clock, move_in, show_receipt

TAG, TIME = "x-revenuecat-etag", "x-revenuecat-request-time"
GETS = [
    "/v1/subscribers/ada",
    "/v1/subscribers/ada/offerings",
    "/v1/subscribers/ada/virtual_currencies",
    "/v1/product_entitlement_mapping",
]


@pytest.mark.parametrize("path", GETS)
async def test_what_the_app_has_already_is_304_without_a_body(shop: Shop, path: str) -> None:
    await show_receipt(shop, "ada")
    first = await shop.client.get(path, key=APP, headers={TAG: ""})
    assert (first.status, first.headers[TIME]) == (200, str(NOW))
    assert len(first.headers[TAG]) == 32
    shop.clock.now += 5_000
    second = await shop.client.get(path, key=APP, headers={TAG: first.headers[TAG], "origin": "https://a.example"})
    assert (second.status, second.body) == (304, b"")
    assert second.headers[TAG] == first.headers[TAG]
    assert second.headers[TIME] == str(NOW + 5_000)
    assert "content-type" not in second.headers
    assert second.headers["access-control-allow-origin"] == "*"
    other = await shop.client.get(path, key=APP, headers={TAG: "0" * 32})
    assert (other.status, other.headers[TAG]) == (200, first.headers[TAG])


async def test_a_change_has_another_tag(shop: Shop) -> None:
    tags = set()
    for number, product in enumerate(("pro_monthly", "coins_100", "team_monthly")):
        assert (await show_receipt(shop, "ada", f"test_1_{number}", product)).status == 200
        tags.add((await shop.v1("ada", key=APP, headers={TAG: ""})).headers[TAG])
    assert len(tags) == 3
    prices = {(await shop.client.get(GETS[3], key=APP, headers={TAG: ""})).headers[TAG]}
    attach = "/v2/projects/proj_demo/entitlements/pro/actions/attach_products"
    await shop.client.post(attach, {"product_ids": ["coins_100"]})
    prices.add((await shop.client.get(GETS[3], key=APP, headers={TAG: ""})).headers[TAG])
    assert len(prices) == 2


@pytest.mark.parametrize("path", GETS)
async def test_without_the_header_there_is_no_tag(shop: Shop, path: str) -> None:
    await show_receipt(shop, "ada")
    assert TAG not in (await shop.client.get(path, key=APP)).headers


async def test_a_reply_to_post_and_an_error_never_have_a_tag(shop: Shop) -> None:
    bought = await show_receipt(shop, "ada", headers={TAG: ""})
    assert (bought.status, TAG in bought.headers, bought.headers[TIME]) == (200, False, str(NOW))
    new = {"app_user_id": "ada", "new_app_user_id": "bob"}
    logged_in = await shop.client.post("/v1/subscribers/identify", new, key=APP, headers={TAG: ""})
    assert (TAG in logged_in.headers, logged_in.headers[TIME]) == (False, str(NOW))
    for path in ("/v1/subscribers/null", "/v1/subscribers/null/offerings"):
        refused = await shop.client.get(path, key=APP, headers={TAG: ""})
        assert (refused.status, TAG in refused.headers) == (400, False)


async def test_the_time_is_that_of_the_customers_test_clock(shop: Shop) -> None:
    clock = await make_clock(shop)
    await move_in(shop, "ada", clock)
    await advance(shop, clock, by="P30D")
    reply = await shop.v1("ada", key=APP)
    assert reply.headers[TIME] == str(reply.json()["request_date_ms"]) == str(NOW + 30 * DAY)
    bought = await show_receipt(shop, "ada")
    assert bought.headers[TIME] == str(NOW + 30 * DAY)


async def test_a_server_gets_neither(shop: Shop) -> None:
    await show_receipt(shop, "ada")
    reply = await shop.v1("ada", headers={TAG: ""})
    assert TAG not in reply.headers
    assert TIME not in reply.headers
