"""Secret and public API keys: made, used, listed, changed, revoked, and refused where they cannot be."""

import pytest

from tests.http.client import DAY, NOW, Shop
from tests.http.management import delete, get, post, refused, walk


async def test_a_key_is_shown_once_and_masked_ever_after(shop: Shop) -> None:
    new = {"name": "Reporting", "scopes": ["read"], "rate_limit": 60, "shape": "vendor"}
    made = await post(shop, "api_keys", new)
    assert made.status == 201
    shown = made.json()
    key = shown.pop("key")
    assert key.startswith("sk_")
    assert shown.items() >= {**new, "masked_key": f"sk_…{key[-4:]}", "revoked_at": None}.items()
    listed = await get(shop, "api_keys")
    assert shown in listed.json()["items"]
    assert key.encode() not in listed.body


async def test_a_revoked_key_stops_at_once_and_stays_listed(shop: Shop) -> None:
    made = (await post(shop, "api_keys", {"name": "r", "scopes": ["read", "write"]})).json()
    revoked = await delete(shop, f"api_keys/{made['id']}")
    assert (revoked.status, revoked.json()["revoked_at"]) == (200, NOW)
    assert (await get(shop, "products", key=made["key"])).status == 401
    shop.clock.now += 1000
    assert (await delete(shop, f"api_keys/{made['id']}")).json()["revoked_at"] == NOW
    assert made["id"] in {item["id"] for item in await walk(shop, "api_keys?limit=1")}


async def test_a_rotated_key_has_a_successor_and_works_on_for_some_days(shop: Shop) -> None:
    rules = {"expires_at": NOW + 30 * DAY, "allowed_networks": ["127.0.0.0/8"], "shape": "vendor"}
    old = (await post(shop, "api_keys", {"name": "r", "scopes": ["read"], "rate_limit": 70, **rules})).json()
    shop.clock.now += 10 * DAY
    made = await post(shop, f"api_keys/{old['id']}/actions/rotate", {"overlap_days": 2})
    assert made.status == 201
    new = made.json()
    # It lives as long as its predecessor was to live.
    assert new["expires_at"] == shop.clock.now + 30 * DAY
    assert all(new[field] == old[field] for field in ("name", "scopes", "rate_limit", "allowed_networks", "shape"))
    for key in (old["key"], new["key"]):
        assert (await get(shop, "products", key=key)).status == 200
    shop.clock.now += 2 * DAY
    assert [(await get(shop, "products", key=key)).status for key in (old["key"], new["key"])] == [401, 200]
    again = await post(shop, f"api_keys/{old['id']}/actions/rotate", {})
    assert (again.status, again.json()["param"]) == (422, "key_id")


async def test_403_for_giving_away_a_scope_that_the_caller_lacks(shop: Shop) -> None:
    writer = (await post(shop, "api_keys", {"name": "w", "scopes": ["write"]})).json()["key"]
    reply = await post(shop, "api_keys", {"name": "more", "scopes": ["read", "write"]}, key=writer)
    refused(reply, 403, "authorization_error", "scopes")
    assert (await post(shop, "api_keys", {"name": "same", "scopes": ["write"]}, key=writer)).status == 201


async def test_403_for_raising_its_own_limit_in_any_way(shop: Shop) -> None:
    small = (await post(shop, "api_keys", {"name": "s", "scopes": ["read", "write"], "rate_limit": 100})).json()
    mine = {"key": small["key"]}
    [large] = [key for key in await walk(shop, "api_keys") if key["id"] != small["id"]]
    kind = {"name": "more", "scopes": ["read"]}
    for path, body in (
        (f"api_keys/{small['id']}", {"rate_limit": 101}),
        (f"api_keys/{large['id']}", {"rate_limit": 481}),
        ("api_keys", {**kind, "rate_limit": 101}),
        # Its successor would be shown.
        (f"api_keys/{large['id']}/actions/rotate", {}),
    ):
        refused(await post(shop, path, body, **mine), 403, "authorization_error", "rate_limit")
    assert (await post(shop, "api_keys", kind, **mine)).json()["rate_limit"] == 100
    assert (await post(shop, f"api_keys/{large['id']}", {"name": "main", "rate_limit": 300}, **mine)).status == 200
    assert (await post(shop, f"api_keys/{small['id']}", {"rate_limit": 50}, **mine)).json()["rate_limit"] == 50
    assert (await post(shop, f"api_keys/{small['id']}", {"rate_limit": 100}, **mine)).status == 403


async def test_404_for_a_key_that_is_not_there_or_is_an_apps(shop: Shop) -> None:
    refused(await delete(shop, "api_keys/key_none"), 404, "resource_missing", "key_id")
    [public] = await walk(shop, "apps/app_demo/public_api_keys")
    refused(await delete(shop, f"api_keys/{public['id']}"), 404, "resource_missing", "key_id")
    assert (await shop.v1("ada", key=shop.public)).status == 201
    refused(await get(shop, "api_keys?starting_after=key_none"), 404, "resource_missing", "starting_after")


APPS = "/v2/projects/proj_demo/apps"


@pytest.mark.parametrize(
    ("store", "prefix"),
    [
        ("app_store", "appl_"),
        ("mac_app_store", "mac_"),
        ("play_store", "goog_"),
        ("amazon", "amzn_"),
        ("galaxy", "galx_"),
        ("stripe", "strp_"),
        ("rc_billing", "rcb_"),
        ("paddle", "pdl_"),
        ("test_store", "test_"),
    ],
)
async def test_an_app_in_each_store_has_a_key_that_reads(steady_shop: Shop, store: str, prefix: str) -> None:
    made = await steady_shop.client.post(APPS, {"name": "Mine", "store": store})
    assert made.status == 201
    key = made.json()["public_api_key"]["key"]
    assert key.startswith(prefix)
    assert (await steady_shop.v1("somebody", key=key)).status in {200, 201}


async def test_a_web_app_can_have_a_sandbox_key_and_no_other_app_can(steady_shop: Shop) -> None:
    for store, status in (("rc_billing", 201), ("app_store", 400)):
        app = (await steady_shop.client.post(APPS, {"name": "Mine", "store": store})).json()["id"]
        made = await steady_shop.client.post(f"{APPS}/{app}/public_api_keys", {"environment": "sandbox"})
        assert made.status == status
        if status == 201:
            key = made.json()["key"]
            assert key.startswith("rcb_sb_")
            assert (await steady_shop.v1("somebody", key=key)).status in {200, 201}
        else:
            assert made.json()["param"] == "environment"


@pytest.mark.parametrize("store", ["mac_app_store", "amazon", "galaxy", "paddle", "rc_billing"])
async def test_a_receipt_of_a_store_that_cannot_be_connected_is_kept_by_the_phone(
    steady_shop: Shop, store: str
) -> None:
    made = (await steady_shop.client.post(APPS, {"name": "Mine", "store": store})).json()
    receipt = {"app_user_id": "buyer", "fetch_token": "amzn1.receipt", "product_ids": ["pro_monthly"]}
    reply = await steady_shop.client.post("/v1/receipts", receipt, key=made["public_api_key"]["key"])
    assert reply.status == 503
