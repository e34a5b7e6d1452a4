"""POST /v1/subscribers/identify: the whole table of who logs in as whom."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import pytest

from tests.api.client import NOW, Reply, Shop
from tests.api.doings import (
    ANONYMOUS,
    OTHER_ANONYMOUS,
    count_rows,
    did,
    make_clock,
    move_in,
    show_receipt,
    subscriber,
    told,
)
from tests.api.management import get, holds


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


async def test_a_merge_adds_up_money_keeps_newer_attributes_and_goes_on_counting(shop: Shop) -> None:
    for who, at in ((ANONYMOUS, NOW + 1), ("ada", NOW)):
        await show_receipt(
            shop,
            who,
            f"test_1_{at}",
            "coins_100",
            attributes={"plan": {"value": who[:4], "updated_at_ms": at}},
        )
    await identify(shop, ANONYMOUS, "ada")
    currencies = (await shop.client.get("/v1/subscribers/ada/virtual_currencies")).json()["virtual_currencies"]
    assert currencies["COIN"]["balance"] == 200
    assert (await subscriber(shop))["subscriber_attributes"]["plan"]["value"] == "$RCA"
    await did(shop, "purchase", ANONYMOUS, "pro_monthly")
    events = await told(shop)
    assert len(events) == 6
    assert events[-1]["app_user_id"] == "ada"
    assert events[-1]["aliases"] == [ANONYMOUS]
    own = [event["sequence"] for event in events if event["app_user_id"] == "ada"]
    assert own == [1, 2, 3, 4]


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


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("", "ada", 7220),
        ("ada", "", 7220),
        ("ada", "null", 7256),
        ("ada", "a/b", 7256),
        ("x" * 101, "ada", 7256),
        ("ada", None, 7226),
        (None, "ada", 7226),
        (1, "ada", 7226),
    ],
)
async def test_ids_that_cannot_be_one_are_400(steady_shop: Shop, old: Any, new: Any, code: int) -> None:
    before = await count_rows(steady_shop)
    reply = await identify(steady_shop, old, new)
    assert (reply.status, reply.json()["code"]) == (400, code)
    assert await count_rows(steady_shop) == before
