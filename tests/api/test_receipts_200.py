"""POST /v1/receipts, when a purchase is taken in."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import pytest

from latchkey.api.front import Front
from latchkey.domain.instants import end_to_iso, to_iso
from tests.api.client import DAY, NOW, Shop
from tests.api.doings import ANONYMOUS, TOKEN, did, make_clock, move_in, show_receipt, subscriber, told, types_told
from tests.api.management import get, holds, post


async def test_a_receipt_of_a_stranger_makes_the_subscriber_and_answers_with_it(shop: Shop) -> None:
    reply = await show_receipt(shop, "ada")
    assert reply.status == 200
    body, read = reply.json()["subscriber"], (await shop.v1("ada", key=shop.public)).json()["subscriber"]
    # Whoever sent the token sees it; everybody else with the app's key sees something in its place.
    shown = read["subscriptions"]["pro_monthly"].pop("store_transaction_id")
    assert shown.startswith("test_")
    assert shown != body["subscriptions"]["pro_monthly"].pop("store_transaction_id") == TOKEN
    assert body == read
    assert body["first_seen"] == body["original_purchase_date"] == to_iso(NOW)
    assert body["entitlements"]["pro"]["expires_date"] == end_to_iso(NOW + 31 * DAY, NOW)
    assert await holds(shop, "ada") == {"pro"}


async def test_the_event_of_a_receipt_names_the_transaction_the_price_and_the_app(shop: Shop) -> None:
    await show_receipt(shop, "ada", key=shop.public)
    [event] = await told(shop)
    assert event["type"] == "INITIAL_PURCHASE"
    assert (event["price"], event["price_in_purchased_currency"], event["currency"]) == (9.99, 9.99, "USD")
    assert event["original_transaction_id"] == TOKEN
    assert (event["app_id"], event["store"], event["environment"]) == ("app_demo", "test_store", "SANDBOX")
    assert event["sequence"] == 1


async def test_the_same_receipt_again_is_the_same_purchase(shop: Shop) -> None:
    first = await show_receipt(shop, "ada")
    shop.clock.now += DAY
    again = await show_receipt(shop, "ada")
    assert (first.status, again.status) == (200, 200)
    assert first.json()["subscriber"] == again.json()["subscriber"]
    assert await types_told(shop) == ["INITIAL_PURCHASE"]


async def test_the_same_receipt_many_times_at_once_is_one_purchase(shop: Shop) -> None:
    replies = await asyncio.gather(*(show_receipt(shop, "ada") for _ in range(25)))
    assert {reply.status for reply in replies} == {200}
    assert len({reply.body for reply in replies}) == 1
    assert await types_told(shop) == ["INITIAL_PURCHASE"]


async def test_one_receipt_that_two_users_show_at_once_belongs_to_one_of_them(shop: Shop) -> None:
    replies = await asyncio.gather(*(show_receipt(shop, name) for name in ["ada", "bob"] * 10))
    assert {reply.status for reply in replies} == {200}
    assert sorted([await holds(shop, "ada"), await holds(shop, "bob")]) == [set(), {"pro"}]
    events = await told(shop) + await told(shop, "bob")
    assert [event["type"] for event in events].count("INITIAL_PURCHASE") == 1


async def test_another_receipt_for_the_same_product_is_another_purchase(shop: Shop) -> None:
    await show_receipt(shop, "ada", "test_1_a")
    await show_receipt(shop, "ada", "test_1_b")
    assert await types_told(shop) == ["INITIAL_PURCHASE", "INITIAL_PURCHASE"]


async def test_a_one_time_receipt_is_a_non_subscription(shop: Shop) -> None:
    body = (await show_receipt(shop, "ada", product_id="pro_lifetime")).json()["subscriber"]
    assert body["subscriptions"] == {}
    [bought] = body["non_subscriptions"]["pro_lifetime"]
    assert (bought["id"], bought["purchase_date"], bought["price"]["amount"]) == (TOKEN, to_iso(NOW), 199.99)
    assert body["entitlements"]["pro"]["expires_date"] is None


async def test_a_receipt_for_coins_credits_them_once(shop: Shop) -> None:
    for _ in range(3):
        await show_receipt(shop, "ada", product_id="coins_100")
    reply = await shop.client.get("/v1/subscribers/ada/virtual_currencies")
    assert reply.json()["virtual_currencies"]["COIN"]["balance"] == 100
    assert await types_told(shop) == ["NON_RENEWING_PURCHASE", "VIRTUAL_CURRENCY_TRANSACTION"]


@pytest.mark.parametrize("platform", ["ios", "iOS"])
async def test_a_platform_that_exists_is_taken_and_seen_in_v2(shop: Shop, platform: str) -> None:
    assert (await show_receipt(shop, "ada", headers={"x-platform": platform})).status == 200
    assert isinstance(shop.client.app, Front)
    await shop.client.app.services.presence.flush()  # sooner than by itself
    assert (await shop.v2("ada")).json()["last_seen_platform"] == platform.lower()


async def test_attributes_inside_the_receipt_are_noted_and_in_the_event(shop: Shop) -> None:
    noted = {"$email": {"value": "ada@example.com", "updated_at_ms": NOW}, "plan": {"value": "x", "updated_at_ms": NOW}}
    await show_receipt(shop, "ada", attributes=noted)
    assert (await subscriber(shop, "ada"))["subscriber_attributes"] == noted
    [event] = await told(shop)
    assert event["subscriber_attributes"] == noted


async def test_attributes_inside_a_receipt_that_was_anothers_are_noted_too(shop: Shop) -> None:
    noted = {"plan": {"value": "x", "updated_at_ms": NOW}}
    await show_receipt(shop, "ada")
    await show_receipt(shop, "bob", attributes=noted)
    assert (await subscriber(shop, "bob"))["subscriber_attributes"] == noted
    assert (await subscriber(shop, "ada"))["subscriber_attributes"] == {}


@pytest.mark.parametrize(
    "extra",
    [
        {"observer_mode": True, "normal_duration": "P1M", "introductory_price": None, "app_transaction": {"a": [1]}},
        {"presented_offering_identifier": "default", "initiation_source": "purchase", "is_restore": False},
    ],
)
async def test_fields_that_apps_add_of_their_own_are_let_pass(shop: Shop, extra: dict[str, Any]) -> None:
    assert (await show_receipt(shop, "ada", **extra)).status == 200


async def test_the_offering_that_a_product_was_bought_from_is_kept_and_told(shop: Shop) -> None:
    offering = (await post(shop, "offerings", {"lookup_key": "autumn", "display_name": "Autumn"})).json()
    claims: dict[str, Any] = {TOKEN: "autumn", f"{TOKEN}a": "made up", f"{TOKEN}b": 7}
    for token, claimed in claims.items():
        await show_receipt(shop, "ada", token, "coins_100", presented_offering_identifier=claimed)
    shown = {
        token: (await get(shop, f"purchases?store_purchase_identifier={token}")).json()["items"][0] for token in claims
    }
    assert [one["presented_offering_id"] for one in shown.values()] == [offering["id"], None, None]
    events = [one for one in await told(shop) if one["type"] == "NON_RENEWING_PURCHASE"]
    assert [one.get("presented_offering_id") for one in events] == ["autumn", None, None]


async def test_the_answer_does_not_show_the_attributes(shop: Shop) -> None:
    await shop.note("ada", plan="x")
    assert "subscriber_attributes" not in (await show_receipt(shop, "ada")).json()["subscriber"]


async def test_the_android_sdk_names_the_product_in_a_list(shop: Shop) -> None:
    reply = await show_receipt(shop, "ada", product_id=None, product_ids=["pro_yearly"])
    assert list(reply.json()["subscriber"]["subscriptions"]) == ["pro_yearly"]


async def test_a_receipt_that_was_anothers_is_transferred_and_the_receiver_is_told(shop: Shop) -> None:
    await show_receipt(shop, "ada")
    body = (await show_receipt(shop, "bob", product_id=None, is_restore=True)).json()
    assert set(body["subscriber"]["entitlements"]) == {"pro"}
    assert (await subscriber(shop, "ada"))["entitlements"] == {}
    [event] = await told(shop, "bob")
    assert (event["type"], event["app_user_id"]) == ("TRANSFER", "bob")
    assert (event["transferred_from"], event["transferred_to"]) == (["ada"], ["bob"])
    assert set(event["entitlements"]) == {"pro"}
    assert await types_told(shop, "ada") == ["INITIAL_PURCHASE"]


async def test_a_receipt_of_an_anonymous_owner_makes_an_alias_and_no_transfer(shop: Shop) -> None:
    await show_receipt(shop, ANONYMOUS)
    body = (await show_receipt(shop, "bob")).json()
    assert body["subscriber"]["original_app_user_id"] == ANONYMOUS
    assert (await shop.v2(quote(ANONYMOUS))).json()["id"] == "bob"
    assert [item["id"] for item in (await get(shop, "customers/bob/aliases")).json()["items"]] == [ANONYMOUS, "bob"]
    assert await types_told(shop, "bob") == ["INITIAL_PURCHASE", "SUBSCRIBER_ALIAS"]


async def test_an_anonymous_owner_is_joined_even_where_purchases_are_kept(shop: Shop) -> None:
    await shop.database.pool.execute("update projects set restore_behavior = 'keep'")
    await show_receipt(shop, ANONYMOUS)
    assert (await show_receipt(shop, "bob")).status == 200
    assert await holds(shop, "bob") == {"pro"}


async def test_a_receipt_of_a_customer_on_a_test_clock_is_bought_at_its_time(shop: Shop) -> None:
    then = NOW + 500 * DAY
    await move_in(shop, "ada", await make_clock(shop, then))
    body = (await show_receipt(shop, "ada")).json()
    assert body["request_date_ms"] == then
    assert body["subscriber"]["subscriptions"]["pro_monthly"]["purchase_date"] == to_iso(then)


async def test_a_receipt_settles_a_temporary_grant_in_silence(shop: Shop) -> None:
    await did(shop, "store_outage", "ada", "pro_monthly")
    await show_receipt(shop, "ada")
    assert await types_told(shop) == ["TEMPORARY_ENTITLEMENT_GRANT", "INITIAL_PURCHASE"]
