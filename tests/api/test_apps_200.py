"""Apps, and the public keys that ship inside them."""

from __future__ import annotations

import re
from typing import Any

from tests.api.client import NOW, Shop
from tests.api.management import delete, get, post, walk


async def new_app(shop: Shop) -> dict[str, Any]:
    reply = await post(shop, "apps", {"name": "Phone", "store": "app_store"})
    assert reply.status == 201
    made: dict[str, Any] = reply.json()
    return made


async def test_a_new_app_comes_with_a_key_that_is_shown_this_once(shop: Shop) -> None:
    made = await new_app(shop)
    first = made.pop("public_api_key")
    assert (made["name"], made["store"]) == ("Phone", "app_store")
    assert re.fullmatch(r"https://localhost/incoming/[A-Za-z0-9_-]{32}", made["notification_url"])
    assert first["key"].startswith("appl_")
    assert (await shop.v1("newcomer", key=first["key"])).status == 201
    assert (await get(shop, f"apps/{made['id']}")).json() == made
    [listed] = await walk(shop, f"apps/{made['id']}/public_api_keys")
    assert (listed["key"], listed["masked_key"], listed["name"]) == (
        first["key"],
        f"appl_…{first['key'][-4:]}",
        "Phone",
    )


async def test_apps_are_listed_oldest_first(shop: Shop) -> None:
    shop.clock.now += 1
    made = await new_app(shop)
    assert [item["id"] for item in await walk(shop, "apps?limit=1")] == ["app_demo", made["id"]]


async def test_an_app_of_a_store_that_is_not_connected_has_no_notification_url(shop: Shop) -> None:
    made = await new_app(shop)
    shown = {item["id"]: item["notification_url"] for item in await walk(shop, "apps")}
    assert shown == {"app_demo": None, made["id"]: made["notification_url"]}
    assert (await get(shop, "apps/app_demo")).json()["notification_url"] is None
    amazon = (await post(shop, "apps", {"name": "Fire", "store": "amazon"})).json()
    assert amazon["notification_url"] is None


async def test_every_app_has_a_notification_url_of_its_own_that_stays(shop: Shop) -> None:
    one, two = await new_app(shop), await new_app(shop)
    assert one["notification_url"] != two["notification_url"]
    assert (await get(shop, f"apps/{one['id']}")).json()["notification_url"] == one["notification_url"]


async def test_an_app_can_change_its_key(shop: Shop) -> None:
    app = await new_app(shop)
    path = f"apps/{app['id']}/public_api_keys"
    shop.clock.now += 1
    second = (await post(shop, path, {"name": "Version 2", "rate_limit": 5})).json()
    assert (second["name"], second["rate_limit"], second["key"][:5]) == ("Version 2", 5, "appl_")
    old = app["public_api_key"]
    revoked = await delete(shop, f"{path}/{old['id']}")
    assert revoked.json()["revoked_at"] == NOW + 1
    assert revoked.json()["key"] == old["key"]
    assert (await shop.v1("ada", key=old["key"])).status == 401
    assert (await shop.v1("ada", key=second["key"])).status == 201
    listed = await walk(shop, f"{path}?limit=1")
    assert [(item["id"], item["revoked_at"]) for item in listed] == [(old["id"], NOW + 1), (second["id"], None)]


async def test_a_deleted_app_is_locked_out_and_what_was_bought_in_it_stays(shop: Shop) -> None:
    app = await new_app(shop)
    await shop.act("purchase", "ada", "pro_monthly", app_id=app["id"])
    gone = await delete(shop, f"apps/{app['id']}")
    assert gone.json() == {"object": "app", "id": app["id"], "deleted_at": NOW}
    assert (await get(shop, f"apps/{app['id']}")).status == 404
    assert (await shop.v1("ada", key=app["public_api_key"]["key"])).status == 401
    assert (await shop.v1("ada")).json()["subscriber"]["entitlements"].keys() == {"pro"}
