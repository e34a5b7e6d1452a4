"""What SDKs send in the background, and `X-RevenueCat-ETag` and `X-RevenueCat-Request-Time`, as they use them."""

import pytest

from tests.http.client import APP, DAY, NOW, Shop
from tests.http.doings import advance, clock_with, count_rows, did, show_receipt


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("events", {"events": [{"type": "paywall_impression", "id": "1", "timestamp": NOW, "nested": {"a": [1]}}]}),
        ("diagnostics", {"entries": [{"name": "http_request_performed", "properties": {}}]}),
        ("subscribers/ada/attribution", {"data": {"rc_idfa": "x"}, "network": "1"}),
        ("subscribers/ada/adservices_attribution", {"aad_attribution_token": "x"}),
    ],
)
async def test_what_is_not_used_is_accepted_and_leaves_nothing_behind(
    shop: Shop, path: str, body: dict[str, object]
) -> None:
    before = await count_rows(shop)
    reply = await shop.client.post(f"/v1/{path}", body, key=APP)
    assert (reply.status, reply.json()) == (200, {})
    assert await count_rows(shop) == before
    assert (await shop.client.post(f"/v1/{path}", body=b"{}" * 600_000, key=APP)).status == 413
    assert (await shop.client.post(f"/v1/{path}", body, key=None)).status == 401


async def test_the_mapping_has_every_product_also_those_off_sale(shop: Shop) -> None:
    await shop.client.request("DELETE", "/v2/projects/proj_demo/products/pro_monthly")
    mapping = (await shop.client.get("/v1/product_entitlement_mapping", key=APP)).json()["product_entitlement_mapping"]
    assert mapping["pro_monthly"] == {"product_identifier": "pro_monthly", "entitlements": ["pro"]}
    assert mapping["coins_100"]["entitlements"] == []


async def test_the_mapping_of_a_google_app_names_base_plans(shop: Shop) -> None:
    new = {"id": "gold:p1m", "kind": "subscription", "duration": "P1M", "price": 5, "currency": "USD"}
    await shop.client.post("/v2/projects/proj_demo/products", new)
    await shop.client.post(
        "/v2/projects/proj_demo/entitlements/pro/actions/attach_products", {"product_ids": ["gold:p1m"]}
    )
    found = {}
    for store in ("play_store", "app_store"):
        made = await shop.client.post("/v2/projects/proj_demo/apps", {"name": "x", "store": store})
        reply = await shop.client.get("/v1/product_entitlement_mapping", key=made.json()["public_api_key"]["key"])
        found[store] = reply.json()["product_entitlement_mapping"]["gold:p1m"]
    assert found["play_store"] == {"product_identifier": "gold", "base_plan_id": "p1m", "entitlements": ["pro"]}
    assert found["app_store"] == {"product_identifier": "gold:p1m", "entitlements": ["pro"]}


async def test_an_introductory_offer_that_was_used_is_gone(shop: Shop) -> None:
    path, asked = "/v1/subscribers/ada/intro_eligibility", {"product_identifiers": ["pro_monthly", "team_monthly", "x"]}
    fresh = (await shop.client.post(path, asked, key=APP)).json()
    assert fresh == {"pro_monthly": True, "team_monthly": True, "x": None}
    await did(shop, "purchase", "ada", "pro_monthly", trial=True)
    used = (await shop.client.post(path, {**asked, "fetch_token": "base64"}, key=APP)).json()
    # Whether the two products are in one group is not known.
    assert used == {"pro_monthly": False, "team_monthly": None, "x": None}


async def test_a_restore_is_allowed_as_the_project_says(shop: Shop) -> None:
    token = "test_1_a"

    async def allowed(app_user_id: str) -> object:
        path = f"/v1/subscribers/{app_user_id}/restore/eligibility"
        reply = await shop.client.post(path, {"fetch_token": token}, key=APP)
        assert reply.status == 200
        return reply.json()["is_purchase_allowed_by_restore_behavior"]

    assert await allowed("bob") is True
    await show_receipt(shop, "ada", token)
    before = await count_rows(shop)
    for behavior, bobs in (("transfer", True), ("keep", False), ("transfer_if_no_active_subscriptions", False)):
        await shop.client.request(
            "PATCH", "/v2/projects/proj_demo", body=b'{"restore_behavior": "%s"}' % behavior.encode()
        )
        assert await allowed("ada") is True
        assert await allowed("bob") is bobs
    assert await count_rows(shop) == before


async def test_a_restore_of_what_cannot_be_checked_is_503_and_of_no_receipt_400(shop: Shop) -> None:
    made = await shop.client.post("/v2/projects/proj_demo/apps", {"name": "x", "store": "app_store"})
    key = made.json()["public_api_key"]["key"]
    path = "/v1/subscribers/ada/restore/eligibility"
    assert (await shop.client.post(path, {"fetch_token": "a.b.c"}, key=key)).status == 503
    assert (await shop.client.post(path, {"fetch_token": "test_1_a"}, key=key)).status == 400
    assert (await shop.client.post(path, {}, key=key)).status == 400


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
    clock = await clock_with(shop, "ada")
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
