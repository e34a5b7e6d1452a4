"""API keys that cannot be made or revoked."""

from __future__ import annotations

from typing import Any

from tests.api.client import Shop
from tests.api.management import delete, get, post, refused, walk

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"scopes": ["read"]}, "name"),
    ({"name": "", "scopes": ["read"]}, "name"),
    ({"name": "x" * 1501, "scopes": ["read"]}, "name"),
    ({"name": "k"}, "scopes"),
    ({"name": "k", "scopes": []}, "scopes"),
    ({"name": "k", "scopes": "read"}, "scopes"),
    ({"name": "k", "scopes": ["admin"]}, "scopes.0"),
    ({"name": "k", "scopes": ["read"], "rate_limit": 0}, "rate_limit"),
    ({"name": "k", "scopes": ["read"], "rate_limit": None}, "rate_limit"),
    ({"name": "k", "scopes": ["read"], "rate_limit": 1.5}, "rate_limit"),
    ({"name": "k", "scopes": ["read"], "kind": "public"}, "kind"),
]


async def test_400_for_a_key_with_something_wrong(shop: Shop) -> None:
    before = await walk(shop, "api_keys")
    for sent, param in WRONG:
        refused(await post(shop, "api_keys", sent), 400, "parameter_error", param)
    assert await walk(shop, "api_keys") == before


async def test_403_for_giving_away_a_scope_that_the_caller_lacks(shop: Shop) -> None:
    writer = (await post(shop, "api_keys", {"name": "w", "scopes": ["write"]})).json()["key"]
    reply = await post(shop, "api_keys", {"name": "more", "scopes": ["read", "write"]}, key=writer)
    refused(reply, 403, "authorization_error", "scopes")
    assert (await post(shop, "api_keys", {"name": "same", "scopes": ["write"]}, key=writer)).status == 201


async def test_404_for_a_key_that_is_not_there_or_is_an_apps(shop: Shop) -> None:
    refused(await delete(shop, "api_keys/key_none"), 404, "resource_missing", "key_id")
    [public] = await walk(shop, "apps/app_demo/public_api_keys")
    refused(await delete(shop, f"api_keys/{public['id']}"), 404, "resource_missing", "key_id")
    assert (await shop.v1("ada", key=shop.public)).status == 201
    refused(await get(shop, "api_keys?starting_after=key_none"), 404, "resource_missing", "starting_after")
