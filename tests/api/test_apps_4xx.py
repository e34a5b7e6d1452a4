"""Apps and public keys that are refused."""

from __future__ import annotations

from typing import Any

from tests.api.client import Shop
from tests.api.management import delete, get, post, refused, walk

WRONG_APPS: list[tuple[dict[str, Any], str]] = [
    ({"store": "app_store"}, "name"),
    ({"name": " ", "store": "app_store"}, "name"),
    ({"name": "Phone"}, "store"),
    ({"name": "Phone", "store": "cydia"}, "store"),
    ({"name": "Phone", "store": None}, "store"),
    ({"name": "Phone", "store": "app_store", "id": "mine"}, "id"),
]
WRONG_KEYS: list[tuple[dict[str, Any], str]] = [
    ({"name": ""}, "name"),
    ({"rate_limit": 0}, "rate_limit"),
    ({"rate_limit": 1_000_001}, "rate_limit"),
    ({"rate_limit": "480"}, "rate_limit"),
    ({"scopes": ["read"]}, "scopes"),
]


async def test_400_for_an_app_or_a_key_with_something_wrong(shop: Shop) -> None:
    for sent, param in WRONG_APPS:
        refused(await post(shop, "apps", sent), 400, "parameter_error", param)
    for sent, param in WRONG_KEYS:
        refused(await post(shop, "apps/app_demo/public_api_keys", sent), 400, "parameter_error", param)
    assert [item["id"] for item in await walk(shop, "apps")] == ["app_demo"]
    assert len(await walk(shop, "apps/app_demo/public_api_keys")) == 1


async def test_404_for_a_key_of_another_app(shop: Shop) -> None:
    other = (await post(shop, "apps", {"name": "Phone", "store": "play_store"})).json()["public_api_key"]
    refused(await delete(shop, f"apps/app_demo/public_api_keys/{other['id']}"), 404, "resource_missing", "key_id")
    assert (await shop.v1("ada", key=other["key"])).status == 201


async def test_404_for_an_app_that_is_not_there(shop: Shop) -> None:
    refused(await post(shop, "apps/app_none/public_api_keys", {}), 404, "resource_missing", "app_id")
    refused(await get(shop, "apps/app_none/public_api_keys"), 404, "resource_missing", "app_id")
    refused(await delete(shop, "apps/app_none"), 404, "resource_missing", "app_id")
    refused(await get(shop, "apps?starting_after=app_none"), 404, "resource_missing", "starting_after")
