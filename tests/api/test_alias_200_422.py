"""POST /v1/subscribers/{id}/alias: what the Android SDK sends for an anonymous user found on a new device. It allows no
more than logging in does, except that two anonymous users become one."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.api.client import APP, Reply, Shop
from tests.api.doings import ANONYMOUS, OTHER_ANONYMOUS, count_rows, show_receipt, subscriber, types_told


async def alias(shop: Shop, old: str, new: str, **more: Any) -> Reply:
    body = {"app_user_id": old, "new_app_user_id": new, **more}
    return await shop.client.post(f"/v1/subscribers/{quote(old, safe='')}/alias", body, key=APP)


async def test_a_new_device_gets_what_its_anonymous_user_bought_on_the_old_one(shop: Shop) -> None:
    await show_receipt(shop, ANONYMOUS)
    assert (await shop.v1(quote(OTHER_ANONYMOUS), key=APP)).status == 201
    reply = await alias(shop, ANONYMOUS, OTHER_ANONYMOUS)
    assert reply.status == 200
    assert set(reply.json()["subscriber"]["entitlements"]) == {"pro"}
    assert (await subscriber(shop, ANONYMOUS)) == (await subscriber(shop, OTHER_ANONYMOUS))
    assert await types_told(shop, OTHER_ANONYMOUS) == ["INITIAL_PURCHASE", "SUBSCRIBER_ALIAS"]
    again = await alias(shop, ANONYMOUS, OTHER_ANONYMOUS)
    assert (again.status, again.json()["subscriber"]) == (200, reply.json()["subscriber"])


@pytest.mark.parametrize(("old_exists", "new_exists"), [(True, False), (False, True), (False, False)])
async def test_ids_that_nobody_has_are_added(shop: Shop, old_exists: bool, new_exists: bool) -> None:
    if old_exists:
        await show_receipt(shop, ANONYMOUS)
    if new_exists:
        await show_receipt(shop, OTHER_ANONYMOUS)
    assert (await alias(shop, ANONYMOUS, OTHER_ANONYMOUS)).status == 200
    assert await subscriber(shop, ANONYMOUS) == await subscriber(shop, OTHER_ANONYMOUS)


async def test_an_anonymous_user_becomes_a_named_one_as_by_logging_in(shop: Shop) -> None:
    await show_receipt(shop, ANONYMOUS)
    await shop.note("ada", plan="x")
    assert set((await alias(shop, ANONYMOUS, "ada")).json()["subscriber"]["entitlements"]) == {"pro"}


@pytest.mark.parametrize("mine", [OTHER_ANONYMOUS, "mallory"])
async def test_nobody_takes_the_purchases_of_a_named_user(shop: Shop, mine: str) -> None:
    """The app's public key and the id of a user are no secrets."""
    await show_receipt(shop, ANONYMOUS)
    await shop.client.post("/v1/subscribers/identify", {"app_user_id": ANONYMOUS, "new_app_user_id": "ada"}, key=APP)
    assert (await shop.v1(quote(mine), key=APP)).status == 201
    before, rows = await subscriber(shop, "ada"), await count_rows(shop)
    # Neither by the name nor by the anonymous id, which V1 shows as original_app_user_id.
    for theirs in ("ada", ANONYMOUS):
        for old, new in ((theirs, mine), (mine, theirs)):
            reply = await alias(shop, old, new)
            assert (reply.status, set(reply.json())) == (422, {"code", "message"}), (old, new)
    assert (await subscriber(shop, mine))["entitlements"] == {}
    assert await subscriber(shop, "ada") == before
    assert await count_rows(shop) == rows


async def test_the_path_names_the_user_whatever_the_body_says(shop: Shop) -> None:
    await show_receipt(shop, "ada")
    body = {"app_user_id": "ada", "new_app_user_id": OTHER_ANONYMOUS}
    reply = await shop.client.post(f"/v1/subscribers/{quote(ANONYMOUS)}/alias", body, key=APP)
    assert (reply.status, reply.json()["subscriber"]["entitlements"]) == (200, {})
