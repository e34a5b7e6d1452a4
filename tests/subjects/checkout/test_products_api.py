"""`/rcbilling/v1`: the products that the web SDK and the test store ask for; a checkout without a payment provider."""

import pytest

from tests.http.client import APP, Shop

PATH = "/rcbilling/v1/subscribers/ada/products"
BROWSER = {"origin": "https://shop.example"}


async def test_a_trial_is_a_phase_without_a_price_and_a_new_price_shows_at_once(shop: Shop) -> None:
    new = {"id": "gold", "kind": "subscription", "duration": "P12M", "trial_duration": "P2W", "currency": "EUR"}
    await shop.client.post("/v2/projects/proj_demo/products", {**new, "price": 39.99})
    [gold] = (await shop.client.get(f"{PATH}?id=gold", key=APP)).json()["product_details"]
    option = gold["purchase_options"]["base_option"]
    assert option["trial"] == {"period_duration": "P2W", "price": None, "cycle_count": 1}
    assert option["base"]["period_duration"] == "P1Y"
    await shop.client.post("/v2/projects/proj_demo/products/gold", {"price": 29.99})
    [gold] = (await shop.client.get(f"{PATH}?id=gold", key=APP)).json()["product_details"]
    assert gold["purchase_options"]["base_option"]["base"]["price"] == {"amount_micros": 29_990_000, "currency": "EUR"}


async def test_a_one_time_product_that_grants_something_lasting_is_no_consumable(shop: Shop) -> None:
    await shop.client.post(
        "/v2/projects/proj_demo/products", {"id": "forever", "kind": "one_time", "price": 99, "currency": "USD"}
    )
    attach = "/v2/projects/proj_demo/entitlements/pro/actions/attach_products"
    await shop.client.post(attach, {"product_ids": ["forever"]})
    [forever] = (await shop.client.get(f"{PATH}?id=forever", key=APP)).json()["product_details"]
    assert forever["product_type"] == "non_consumable"


async def test_unknown_and_deleted_products_are_left_out_and_other_parameters_ignored(shop: Shop) -> None:
    await shop.client.request("DELETE", "/v2/projects/proj_demo/products/coins_100")
    asked = "?id=coins_100&id=no_such&id=pro_monthly&id=pro_monthly&currency=EUR&discount_code=X"
    shown = (await shop.client.get(PATH + asked, key=APP)).json()["product_details"]
    assert [one["identifier"] for one in shown] == ["pro_monthly"]
    assert (await shop.client.get(PATH, key=APP)).json() == {"product_details": []}


async def test_a_product_that_is_sold_in_another_app_only_is_left_out(shop: Shop) -> None:
    other = (await shop.client.post("/v2/projects/proj_demo/apps", {"name": "x", "store": "test_store"})).json()
    new = {"store_identifier": "theirs", "app_id": other["id"], "type": "consumable", "title": "Theirs"}
    assert (await shop.client.post("/v2/projects/proj_demo/products", new)).status == 201
    shown = {}
    for key in (shop.public, other["public_api_key"]["key"]):
        listed = (await shop.client.get(f"{PATH}?id=theirs", key=key)).json()["product_details"]
        shown[key] = [one["identifier"] for one in listed]
    assert list(shown.values()) == [[], ["theirs"]]


async def test_errors_under_rcbilling_are_those_of_v1_and_a_browser_may_read_them(shop: Shop) -> None:
    for path, key, status in (
        (PATH, None, 401),
        (PATH, "test_unknown", 401),
        ("/rcbilling/v1/subscribers/null/products", APP, 400),
        ("/rcbilling/v1/nothing", APP, 404),
        ("/rcbilling/v1/checkout/op_1", APP, 422),
    ):
        reply = await shop.client.get(path, key=key, headers=BROWSER)
        assert reply.status == status
        assert set(reply.json()) == {"code", "message"}
        assert reply.headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/rcbilling/v1/checkout/prepare"),
        ("POST", "/rcbilling/v1/checkout/start"),
        ("PATCH", "/rcbilling/v1/checkout/op_1"),
        ("POST", "/rcbilling/v1/checkout/op_1/complete"),
    ],
)
async def test_a_checkout_is_refused_with_a_reason_until_a_provider_is_connected(
    shop: Shop, method: str, path: str
) -> None:
    body = b'{"app_user_id": "ada", "product_id": "pro_monthly", "price_id": "x", "trace_id": "1", "metadata": null}'
    reply = await shop.client.request(method, path, body=body, key=APP, headers=BROWSER)
    assert (reply.status, reply.json()["code"]) == (422, 7000)
    assert "payment provider" in reply.json()["message"]
    assert reply.headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize("path", [PATH, "/rcbilling/v1/checkout/op_1", "/v1/subscribers/ada"])
async def test_a_preflight_allows_patch_and_every_header_an_app_adds(shop: Shop, path: str) -> None:
    asked = "authorization, content-type, x-is-sandbox, x-platform, x-rc-subscriber-token, x-of-the-app"
    headers = {"access-control-request-method": "PATCH", "access-control-request-headers": asked}
    reply = await shop.client.request("OPTIONS", path, key=None, headers=BROWSER | headers)
    assert reply.status == 204
    assert reply.headers["access-control-allow-origin"] == "*"
    assert "PATCH" in reply.headers["access-control-allow-methods"].split(", ")
    assert reply.headers["access-control-allow-headers"] == asked
