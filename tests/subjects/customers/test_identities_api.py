"""POST /v1/subscribers/identify, the whole table of who logs in as whom, and /alias, which the Android SDK sends."""

import asyncio
from typing import Any
from urllib.parse import quote

import pytest

from tests.http.client import APP, NOW, Reply, Shop
from tests.http.doings import (
    ANONYMOUS,
    OTHER_ANONYMOUS,
    count_rows,
    make_clock,
    move_in,
    show_receipt,
    subscriber,
    types_told,
)
from tests.http.management import get, holds


async def identify(shop: Shop, app_user_id: Any, new_app_user_id: Any, **options: Any) -> Reply:
    body = {"app_user_id": app_user_id, "new_app_user_id": new_app_user_id}
    return await shop.client.post("/v1/subscribers/identify", body, **options)


async def ids(shop: Shop, app_user_id: str) -> set[str]:
    items = (await get(shop, f"customers/{quote(app_user_id)}/aliases")).json()["items"]
    assert {item["object"] for item in items} == {"customer.alias"}
    return {item["id"] for item in items}


# What each has bought, the log-in before, the log-in and its status; then the ids and the access of the new id.
LOG_INS: dict[str, tuple[dict[str, str], tuple[str, str] | None, tuple[str, str], int, set[str], set[str]]] = {
    "two unknown ids": ({}, None, (ANONYMOUS, "ada"), 201, {ANONYMOUS, "ada"}, set()),
    "unknown id": ({ANONYMOUS: "pro_monthly"}, None, (ANONYMOUS, "ada"), 201, {ANONYMOUS, "ada"}, {"pro"}),
    "merged": (
        {ANONYMOUS: "pro_monthly", "ada": "team_monthly"},
        None,
        (ANONYMOUS, "ada"),
        200,
        {ANONYMOUS, "ada"},
        {"pro", "team"},
    ),
    "unknown anonymous": ({"ada": "pro_monthly"}, None, (ANONYMOUS, "ada"), 200, {ANONYMOUS, "ada"}, {"pro"}),
    "the id has an anonymous alias": (
        {ANONYMOUS: "pro_monthly"},
        (OTHER_ANONYMOUS, "ada"),
        (ANONYMOUS, "ada"),
        200,
        {OTHER_ANONYMOUS, "ada"},
        set(),
    ),
    "a second name": ({}, (ANONYMOUS, "ada"), (ANONYMOUS, "bob"), 201, {"bob"}, set()),
    "named, to an unknown id": ({"ada": "pro_monthly"}, None, ("ada", "bob"), 201, {"bob"}, set()),
    "named, to a known id": (
        {"ada": "pro_monthly", "bob": "team_monthly"},
        None,
        ("ada", "bob"),
        200,
        {"bob"},
        {"pro", "team"},
    ),
}


@pytest.mark.parametrize("name", LOG_INS)
async def test_logging_in_merges_or_switches(shop: Shop, name: str) -> None:
    bought, before, (old, new), status, known, held = LOG_INS[name]
    for who, product in bought.items():
        await show_receipt(shop, who, f"test_1_{who[-3:]}", product)
    if before is not None:
        await identify(shop, *before)
    reply = await identify(shop, old, new)
    assert reply.status == status
    assert reply.json() == (await shop.v1(new)).json()
    assert await ids(shop, new) == known
    assert await holds(shop, new) == held
    if old not in known and old in bought:
        assert "pro" in await holds(shop, quote(old))


async def test_an_unknown_named_user_is_not_made_by_switching_away_from_it(shop: Shop) -> None:
    assert (await identify(shop, "ada", "bob")).status == 201
    assert (await shop.v2("ada")).status == 404


@pytest.mark.parametrize("id", ["ada", ANONYMOUS])
async def test_logging_in_as_oneself_is_201_once_and_then_200(shop: Shop, id: str) -> None:
    assert [(await identify(shop, id, id)).status for _ in range(3)] == [201, 200, 200]
    assert await ids(shop, id) == {id}


async def test_logging_in_again_is_200_and_changes_nothing(shop: Shop) -> None:
    await identify(shop, ANONYMOUS, "ada")
    before = await count_rows(shop)
    assert (await identify(shop, ANONYMOUS, "ada")).status == 200
    assert (await identify(shop, "ada", ANONYMOUS)).status == 200
    assert await count_rows(shop) == before


async def test_logging_in_many_times_at_once_creates_once(shop: Shop) -> None:
    replies = await asyncio.gather(*(identify(shop, ANONYMOUS, "ada") for _ in range(20)))
    assert sorted(reply.status for reply in replies) == [200] * 19 + [201]
    assert await ids(shop, "ada") == {ANONYMOUS, "ada"}


@pytest.mark.parametrize("key", ["public", "secret"])
async def test_both_kinds_of_key_may_log_in(shop: Shop, key: str) -> None:
    reply = await identify(shop, ANONYMOUS, "ada", key=getattr(shop, key))
    assert reply.status == 201
    assert ("subscriber_attributes" in reply.json()["subscriber"]) is (key == "secret")


async def test_customers_of_different_clocks_are_not_merged_422(shop: Shop) -> None:
    await move_in(shop, ANONYMOUS, await make_clock(shop))
    await show_receipt(shop, "ada")
    before = await count_rows(shop)
    reply = await identify(shop, ANONYMOUS, "ada")
    assert (reply.status, reply.json()["code"]) == (422, 7226)
    assert await count_rows(shop) == before


async def test_an_anonymous_customer_on_a_clock_takes_its_clock_along(shop: Shop) -> None:
    await move_in(shop, ANONYMOUS, await make_clock(shop, NOW + 5000))
    reply = await identify(shop, ANONYMOUS, "ada")
    assert (reply.status, reply.json()["request_date_ms"]) == (201, NOW + 5000)


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
