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
    types_told,
)
from tests.api.management import get, holds


async def identify(shop: Shop, app_user_id: Any, new_app_user_id: Any, **options: Any) -> Reply:
    body = {"app_user_id": app_user_id, "new_app_user_id": new_app_user_id}
    return await shop.client.post("/v1/subscribers/identify", body, **options)


async def ids(shop: Shop, app_user_id: str) -> set[str]:
    items = (await get(shop, f"customers/{quote(app_user_id)}/aliases")).json()["items"]
    assert {item["object"] for item in items} == {"customer.alias"}
    return {item["id"] for item in items}


async def test_an_unknown_anonymous_user_and_an_unknown_id_make_one_customer_201(shop: Shop) -> None:
    reply = await identify(shop, ANONYMOUS, "ada")
    assert reply.status == 201
    assert reply.json() == (await shop.v1("ada")).json()
    assert reply.json()["subscriber"]["original_app_user_id"] == ANONYMOUS
    assert await ids(shop, "ada") == {ANONYMOUS, "ada"}


async def test_a_known_anonymous_customer_takes_the_unknown_id_201(shop: Shop) -> None:
    await show_receipt(shop, ANONYMOUS)
    reply = await identify(shop, ANONYMOUS, "ada")
    assert reply.status == 201
    assert set(reply.json()["subscriber"]["entitlements"]) == {"pro"}
    assert (await shop.v2(quote(ANONYMOUS))).json()["id"] == "ada"
    assert await types_told(shop, "ada") == ["INITIAL_PURCHASE", "SUBSCRIBER_ALIAS"]


async def test_a_known_anonymous_customer_merges_into_an_existing_id_without_an_anonymous_one_200(shop: Shop) -> None:
    await show_receipt(shop, ANONYMOUS, "test_1_a")
    await show_receipt(shop, "ada", "test_1_b", "team_monthly")
    reply = await identify(shop, ANONYMOUS, "ada")
    assert reply.status == 200
    assert set(reply.json()["subscriber"]["subscriptions"]) == {"pro_monthly", "team_monthly"}
    assert await ids(shop, "ada") == await ids(shop, ANONYMOUS) == {ANONYMOUS, "ada"}


async def test_an_unknown_anonymous_user_becomes_an_alias_of_an_existing_id_200(shop: Shop) -> None:
    await show_receipt(shop, "ada")
    assert (await identify(shop, ANONYMOUS, "ada")).status == 200
    assert await ids(shop, ANONYMOUS) == {ANONYMOUS, "ada"}
    assert (await subscriber(shop))["original_app_user_id"] == "ada"


async def test_an_existing_id_that_has_an_anonymous_alias_already_is_switched_to_200(shop: Shop) -> None:
    await identify(shop, OTHER_ANONYMOUS, "ada")
    await show_receipt(shop, ANONYMOUS)
    reply = await identify(shop, ANONYMOUS, "ada")
    assert reply.status == 200
    assert reply.json()["subscriber"]["entitlements"] == {}
    assert await ids(shop, "ada") == {OTHER_ANONYMOUS, "ada"}
    assert await holds(shop, quote(ANONYMOUS)) == {"pro"}


async def test_a_named_user_switches_to_an_unknown_id_201_and_nothing_merges(shop: Shop) -> None:
    await show_receipt(shop, "ada")
    reply = await identify(shop, "ada", "bob")
    assert reply.status == 201
    assert reply.json()["subscriber"]["original_app_user_id"] == "bob"
    assert await ids(shop, "bob") == {"bob"}
    assert await holds(shop, "ada") == {"pro"}


async def test_a_named_user_switches_to_an_existing_id_200_and_nothing_merges(shop: Shop) -> None:
    await show_receipt(shop, "ada", "test_1_a")
    await show_receipt(shop, "bob", "test_1_b", "team_monthly")
    reply = await identify(shop, "ada", "bob")
    assert reply.status == 200
    assert set(reply.json()["subscriber"]["entitlements"]) == {"pro", "team"}
    assert await ids(shop, "ada") == {"ada"}


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


async def test_one_anonymous_user_logs_in_as_a_second_name_and_only_switches(shop: Shop) -> None:
    await identify(shop, ANONYMOUS, "ada")
    assert (await identify(shop, ANONYMOUS, "bob")).status == 201
    assert await ids(shop, ANONYMOUS) == {ANONYMOUS, "ada"}
    assert await ids(shop, "bob") == {"bob"}


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
