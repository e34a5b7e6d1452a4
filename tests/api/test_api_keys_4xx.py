"""API keys that cannot be made or revoked."""

from __future__ import annotations

from tests.api.client import Shop
from tests.api.management import delete, get, post, refused, walk


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
