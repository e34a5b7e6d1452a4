"""Secret API keys that are made, used, listed and revoked."""

from __future__ import annotations

from tests.api.client import NOW, Shop
from tests.api.management import PRODUCT, delete, get, post, walk


async def test_a_key_is_shown_once_and_masked_ever_after(shop: Shop) -> None:
    made = await post(shop, "api_keys", {"name": "Reporting", "scopes": ["read"], "rate_limit": 60})
    assert made.status == 201
    shown = made.json()
    key = shown.pop("key")
    assert key.startswith("sk_")
    assert shown == {
        "object": "api_key",
        "id": shown["id"],
        "project_id": "proj_demo",
        "name": "Reporting",
        "scopes": ["read"],
        "rate_limit": 60,
        "masked_key": f"sk_…{key[-4:]}",
        "created_at": NOW,
        "revoked_at": None,
    }
    listed = await get(shop, "api_keys")
    assert shown in listed.json()["items"]
    assert key.encode() not in listed.body


async def test_a_key_can_do_what_its_scopes_say(shop: Shop) -> None:
    reader = (await post(shop, "api_keys", {"name": "r", "scopes": ["read"]})).json()["key"]
    assert (await get(shop, "products", key=reader)).status == 200
    assert (await post(shop, "products", PRODUCT, key=reader)).status == 403


async def test_a_revoked_key_stops_at_once_and_stays_listed(shop: Shop) -> None:
    made = (await post(shop, "api_keys", {"name": "r", "scopes": ["read", "write"]})).json()
    revoked = await delete(shop, f"api_keys/{made['id']}")
    assert (revoked.status, revoked.json()["revoked_at"]) == (200, NOW)
    assert (await get(shop, "products", key=made["key"])).status == 401
    shop.clock.now += 1000
    assert (await delete(shop, f"api_keys/{made['id']}")).json()["revoked_at"] == NOW
    assert made["id"] in {item["id"] for item in await walk(shop, "api_keys?limit=1")}


async def test_public_keys_are_not_among_them(shop: Shop) -> None:
    assert [item["masked_key"][:3] for item in await walk(shop, "api_keys")] == ["sk_"]
