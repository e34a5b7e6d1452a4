"""For each row of the SDKs' table of endpoints: what the SDK sends is taken, and what its parser requires is there.
Rows 11, 12 and 21, whose replies are empty objects, are in tests/http/test_sdk_requests.py."""

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest
from msgspec import json

from tests.contract.sdks import requirements as need
from tests.contract.sdks.parsing import problems
from tests.contract.sdks.senders import (
    ANDROID_RECEIPT_HEADERS,
    ANONYMOUS,
    ATTRIBUTES,
    CHECKOUT,
    HEADERS,
    OLD_DEVICE,
    RECEIPTS,
)
from tests.databases import DemoShelf
from tests.http.client import NOW, Reply, Shop
from tests.http.doings import did, show_receipt, unhurried
from tests.http.fixtures import opened
from tests.http.till import opened_page

SDKS = ("ios", "android", "js")
NATIVE = ("ios", "android")


@pytest.fixture(scope="module")
async def shop(demo_shelf: DemoShelf) -> AsyncIterator[Shop]:
    """One customer with everything that customer info can show, and anonymous ones."""
    async with demo_shelf.shelf.lend() as database, opened(database, demo_shelf.demo) as shop:
        await unhurried(shop)
        await show_receipt(shop, "ada", "test_1_m", "pro_monthly")
        await show_receipt(shop, "ada", "test_1_c", "coins_100")
        await show_receipt(shop, "ada", "test_2_c", "coins_100")
        await show_receipt(shop, "ada", "test_1_l", "pro_lifetime")
        await did(shop, "purchase", "ada", "team_monthly", trial=False)
        await did(shop, "fail_billing", "ada", "team_monthly", grace_days=3)
        grant = "/v1/subscribers/ada/entitlements/team/promotional"
        await shop.client.post(grant, {"duration": "lifetime"})
        await show_receipt(shop, OLD_DEVICE, "test_1_o", "pro_monthly")
        yield shop


async def send(
    shop: Shop, sdk: str, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> Reply:
    return await shop.client.request(
        method,
        path,
        body=json.encode(body) if body is not None else b"",
        key=shop.public,
        headers=HEADERS[sdk] | (headers or {}),
    )


def understood(sdk: str, reply: Reply, requirements: need.Requirements, statuses: tuple[int, ...] = (200,)) -> Any:
    assert reply.status in statuses, reply
    if sdk == "js":
        assert reply.headers["access-control-allow-origin"] == "*"
    body = reply.json()
    assert not problems(body, requirements), problems(body, requirements)
    return body


def entitlements_are_listed(body: Any) -> None:
    """The web SDK throws the whole reply away otherwise."""
    subscriber = body["subscriber"]
    listed = subscriber["subscriptions"].keys() | subscriber["non_subscriptions"].keys()
    assert {one["product_identifier"] for one in subscriber["entitlements"].values()} <= listed


@pytest.mark.parametrize("sdk", SDKS)
async def test_1_customer_info(shop: Shop, sdk: str) -> None:
    body = understood(sdk, await send(shop, sdk, "GET", "/v1/subscribers/ada"), need.CUSTOMER_INFO[sdk])
    entitlements_are_listed(body)
    assert set(body["subscriber"]["entitlements"]) == {"pro", "team"}
    assert len(body["subscriber"]["non_subscriptions"]["coins_100"]) == 2
    created = await send(shop, sdk, "GET", f"/v1/subscribers/{quote(ANONYMOUS, safe='')}")
    understood(sdk, created, need.CUSTOMER_INFO[sdk], (200, 201))


@pytest.mark.parametrize("sdk", NATIVE)
async def test_1_customer_info_that_the_sdk_has_already(shop: Shop, sdk: str) -> None:
    first = await send(shop, sdk, "GET", "/v1/subscribers/ada")
    tag = first.headers["x-revenuecat-etag"]
    again = await send(shop, sdk, "GET", "/v1/subscribers/ada", headers={"x-revenuecat-etag": tag})
    assert (again.status, again.body, again.headers["x-revenuecat-etag"]) == (304, b"", tag)
    assert int(again.headers["x-revenuecat-request-time"]) == NOW


@pytest.mark.parametrize("sdk", SDKS)
async def test_2_offerings(shop: Shop, sdk: str) -> None:
    body = understood(sdk, await send(shop, sdk, "GET", "/v1/subscribers/ada/offerings"), need.OFFERINGS[sdk])
    known = {one["identifier"] for one in body["offerings"]}
    assert body["current_offering_id"] in known
    assert all(one["packages"] for one in body["offerings"])


@pytest.mark.parametrize("sdk", SDKS)
async def test_3_receipts(shop: Shop, sdk: str) -> None:
    extra = ANDROID_RECEIPT_HEADERS if sdk == "android" else {}
    token = f"test_{NOW}_0B1C2D3E-0000-4000-8000-{sdk.encode().hex():0>12}"
    receipt = RECEIPTS[sdk](f"buyer {sdk}", token, "coins_100")
    reply = await send(shop, sdk, "POST", "/v1/receipts", receipt, extra)
    body = understood(sdk, reply, need.CUSTOMER_INFO[sdk] | need.RECEIPT)
    # The iOS SDK finishes a one-time transaction only if it finds it here.
    [bought] = body["subscriber"]["non_subscriptions"]["coins_100"]
    assert bought["store_transaction_id"] == token
    # Whatever the header and the price say: the test store is a sandbox, at the catalog's price.
    assert (bought["is_sandbox"], bought["price"]) == (True, {"amount": 1.99, "currency": "USD"})
    assert "attributes_error_response" not in body
    assert "x-revenuecat-etag" not in reply.headers


@pytest.mark.parametrize("sdk", SDKS)
async def test_4_log_in(shop: Shop, sdk: str) -> None:
    mine = f"$RCAnonymousID:{sdk.encode().hex():0>32}"
    new = {"app_user_id": mine, "new_app_user_id": f"named by {sdk}"}
    for status in (201, 200):
        reply = await send(shop, sdk, "POST", "/v1/subscribers/identify", new)
        understood(sdk, reply, need.CUSTOMER_INFO[sdk], (status,))


@pytest.mark.parametrize("sdk", SDKS)
async def test_5_attributes(shop: Shop, sdk: str) -> None:
    path = f"/v1/subscribers/attributes%20{sdk}/attributes"
    understood(sdk, await send(shop, sdk, "POST", path, {"attributes": ATTRIBUTES}), need.ANYTHING)
    bad = {"attributes": {"$email": {"value": "no", "updated_at_ms": NOW}, "ok": {"value": "1", "updated_at_ms": NOW}}}
    understood(sdk, await send(shop, sdk, "POST", path, bad), need.ATTRIBUTE_ERRORS, (400,))
    kept = (await shop.v1(f"attributes%20{sdk}")).json()["subscriber"]["subscriber_attributes"]
    assert {name: one["value"] for name, one in kept.items()} == {"$email": "ada@example.com", "ok": "1"}


@pytest.mark.parametrize("sdk", NATIVE)
async def test_6_product_entitlement_mapping(shop: Shop, sdk: str) -> None:
    body = understood(sdk, await send(shop, sdk, "GET", "/v1/product_entitlement_mapping"), need.MAPPING)
    assert body["product_entitlement_mapping"]["pro_monthly"]["entitlements"] == ["pro"]


@pytest.mark.parametrize("sdk", NATIVE)
async def test_7_remote_config(shop: Shop, sdk: str) -> None:
    body = {"app_user_id": ANONYMOUS, "fetch_context": "app_start", "prefetched_blobs": []}
    headers = {"accept": "application/x-rc-format", "accept-rc-element-encoding": "gzip"}
    reply = await send(shop, sdk, "POST", "/v1/config/app", body, headers)
    assert (reply.status, reply.body) == (204, b"")
    assert reply.headers["x-revenuecat-request-time"] == str(NOW)
    assert "content-type" not in reply.headers


async def test_8_remote_config_after_a_failure(shop: Shop) -> None:
    assert (await send(shop, "ios", "GET", "/v1/config/app")).status == 204


@pytest.mark.parametrize("sdk", SDKS)
async def test_9_products(shop: Shop, sdk: str) -> None:
    path = f"/rcbilling/v1/subscribers/{quote(ANONYMOUS, safe='')}/products"
    asked = "?id=pro_monthly&id=coins_100&id=pro_lifetime&currency=EUR"
    body = understood(sdk, await send(shop, sdk, "GET", path + asked), need.PRODUCTS)
    assert [one["identifier"] for one in body["product_details"]] == ["pro_monthly", "coins_100", "pro_lifetime"]
    for product in body["product_details"]:
        option = product["purchase_options"][product["default_purchase_option_id"]]
        assert ("base" in option) == (product["product_type"] == "subscription")
        assert option.get("base_price") or option["base"]["price"]


@pytest.mark.parametrize("sdk", SDKS)
async def test_10_virtual_currencies(shop: Shop, sdk: str) -> None:
    body = understood(sdk, await send(shop, sdk, "GET", "/v1/subscribers/ada/virtual_currencies"), need.CURRENCIES)
    assert body["virtual_currencies"]["COIN"]["balance"] == 200


@pytest.mark.parametrize("sdk", SDKS)
async def test_10_a_balance_of_more_than_32_bits_is_shown_to_apps_as_the_largest(shop: Shop, sdk: str) -> None:
    who = f"rich%20{sdk}"
    assert (await shop.v1(who)).status == 201
    path = f"/v2/projects/{shop.project_id}/customers/{who}/virtual_currencies"
    credit = await shop.client.post(f"{path}/transactions", {"adjustments": {"COIN": 2**31}})
    assert credit.status == 200, credit
    path = f"/v1/subscribers/{who}/virtual_currencies"
    body = understood(sdk, await send(shop, sdk, "GET", path), need.CURRENCIES)
    assert body["virtual_currencies"]["COIN"]["balance"] == 2**31 - 1
    exact = (await shop.client.get(path)).json()
    assert exact["virtual_currencies"]["COIN"]["balance"] == credit.json()["items"][0]["balance"] == 2**31


async def test_15_alias(shop: Shop) -> None:
    new = "$RCAnonymousID:" + "7" * 32
    body = {"app_user_id": OLD_DEVICE, "new_app_user_id": new}
    reply = await send(shop, "android", "POST", f"/v1/subscribers/{quote(OLD_DEVICE, safe='')}/alias", body)
    shown = understood("android", reply, need.CUSTOMER_INFO["android"])
    assert set(shown["subscriber"]["entitlements"]) == {"pro"}


async def test_17_intro_eligibility(shop: Shop) -> None:
    body = {"product_identifiers": ["pro_monthly", "unknown"], "fetch_token": "MIIT"}
    understood(
        "ios", await send(shop, "ios", "POST", "/v1/subscribers/ada/intro_eligibility", body), need.INTRO_ELIGIBILITY
    )


async def test_18_offers(shop: Shop) -> None:
    offer = {"offer_id": "half", "product_id": "pro_monthly", "subscription_group": "1"}
    body = {"app_user_id": "ada", "fetch_token": "MIIT", "generate_offers": [offer]}
    understood("ios", await send(shop, "ios", "POST", "/v1/offers", body), need.OFFERS)


async def test_19_restore_eligibility(shop: Shop) -> None:
    reply = await send(shop, "ios", "POST", "/v1/subscribers/ada/restore/eligibility", {"fetch_token": "test_1_m"})
    understood("ios", reply, need.RESTORE_ELIGIBILITY)


async def test_20_health(shop: Shop) -> None:
    """The iOS SDK sends no key here."""
    understood("ios", await shop.client.get("/v1/health", key=None, headers=HEADERS["ios"]), need.ANYTHING)
    path = "/v1/subscribers/ada/health_report_availability"
    understood("ios", await shop.client.get(path, key=None, headers=HEADERS["ios"]), need.HEALTH_REPORT)


@pytest.mark.parametrize("store", ["stripe", "rc_billing"])
async def test_25_checkout(shop: Shop, store: str) -> None:
    page = await opened_page(shop, store)

    async def ask(method: str, path: str, body: Any = None) -> Reply:
        sent = json.encode(body) if body is not None else b""
        path = f"/rcbilling/v1/{path}"
        return await shop.client.request(method, path, body=sent, key=page.key, headers=HEADERS["js"])

    understood("js", await ask("GET", "branding"), need.BRANDING)
    body = understood("js", await ask("POST", "checkout/start", CHECKOUT), need.CHECKOUT_START[store])
    session = f"checkout/{body['operation_session_id']}"
    if store == "rc_billing":
        prepared = {"product_id": "team_monthly", "price_id": "price_team_monthly"}
        understood("js", await ask("POST", "checkout/prepare", prepared), need.CHECKOUT_PREPARE)
        address = {"country_code": "US", "postal_code": "94110", "discount_code": None}
        understood("js", await ask("PATCH", session, address), need.CHECKOUT_PRICING)
        completed = {"email": "ada@example.com", "locale": "en"}
        understood("js", await ask("POST", f"{session}/complete", completed), need.CHECKOUT_COMPLETE)
    understood("js", await ask("GET", session), need.CHECKOUT_STATUS)
    [handle] = page.provider.payments
    page.provider.pays(handle)
    body = understood("js", await ask("GET", session), need.CHECKOUT_STATUS | need.CHECKOUT_SUCCEEDED)
    assert body["operation"]["status"] == "succeeded"
    missing = await ask("GET", "checkout/lkc_unknown")
    assert understood("js", missing, need.ERROR, (404,))["code"] == 7877


@pytest.mark.parametrize(
    ("sdk", "method", "path"),
    [
        ("ios", "GET", "/v1/customercenter/ada"),
        ("ios", "POST", "/v1/customercenter/support/create-ticket"),
        ("android", "GET", "/v1/receipts/amazon/user/receipt"),
        ("ios", "GET", "/v1/subscribers/ada/health_report"),
        ("ios", "GET", "/v1/subscribers/ada/ads/reward_verifications/0"),
        ("js", "GET", "/v1/subscribers/ada/workflows?type=paywall"),
        ("js", "PATCH", "/rcbilling/v1/checkout/op"),
    ],
)
async def test_13_14_16_22_24_what_is_left_out_has_an_error_that_the_sdk_can_read(
    shop: Shop, sdk: str, method: str, path: str
) -> None:
    reply = await send(shop, sdk, method, path, {} if method != "GET" else None)
    understood(sdk, reply, need.ERROR, (404, 405, 422))


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/subscribers/ada"), ("POST", "/v1/receipts"), ("GET", "/rcbilling/v1/subscribers/ada/products")],
)
async def test_a_browser_asks_before_and_may_send_every_header(shop: Shop, method: str, path: str) -> None:
    asked = ", ".join(sorted(name for name in HEADERS["js"] if name not in {"origin", "accept"}))
    headers = {
        "origin": "https://shop.example",
        "access-control-request-method": method,
        "access-control-request-headers": asked,
    }
    reply = await shop.client.request("OPTIONS", path, key=None, headers=headers)
    assert (reply.status, reply.headers["access-control-allow-headers"]) == (204, asked)
