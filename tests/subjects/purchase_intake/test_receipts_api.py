"""POST /v1/receipts: a purchase is taken in, refused with a reason, or taken in although something beside it is wrong.
`test_writes.py` shows that the framework answers the same."""

import asyncio
from collections.abc import AsyncIterator
from json import dumps as ascii_json
from typing import Any
from urllib.parse import quote

import pytest

from latchkey.domain.instants import end_to_iso, to_iso
from tests.http import doings
from tests.http.client import DAY, NOW, Reply, Shop
from tests.http.management import get, holds, post


async def test_a_receipt_of_a_stranger_makes_the_subscriber_and_answers_with_it(shop: Shop) -> None:
    reply = await doings.show_receipt(shop, "ada")
    assert reply.status == 200
    body, read = reply.json()["subscriber"], (await shop.v1("ada", key=shop.public)).json()["subscriber"]
    # Whoever sent the token sees it; everybody else with the app's key sees something in its place.
    shown = read["subscriptions"]["pro_monthly"].pop("store_transaction_id")
    assert shown.startswith("test_")
    assert shown != body["subscriptions"]["pro_monthly"].pop("store_transaction_id") == doings.TOKEN
    assert body == read
    assert body["first_seen"] == body["original_purchase_date"] == to_iso(NOW)
    assert body["entitlements"]["pro"]["expires_date"] == end_to_iso(NOW + 31 * DAY, NOW)
    assert await holds(shop, "ada") == {"pro"}


async def test_the_same_receipt_again_is_the_same_purchase(shop: Shop) -> None:
    first = await doings.show_receipt(shop, "ada")
    shop.clock.now += DAY
    again = await doings.show_receipt(shop, "ada")
    assert (first.status, again.status) == (200, 200)
    assert first.json()["subscriber"] == again.json()["subscriber"]
    assert await doings.types_told(shop) == ["INITIAL_PURCHASE"]


async def test_the_same_receipt_many_times_at_once_is_one_purchase(shop: Shop) -> None:
    replies = await asyncio.gather(*(doings.show_receipt(shop, "ada") for _ in range(25)))
    assert {reply.status for reply in replies} == {200}
    assert len({reply.body for reply in replies}) == 1
    assert await doings.types_told(shop) == ["INITIAL_PURCHASE"]


async def test_one_receipt_that_two_users_show_at_once_belongs_to_one_of_them(shop: Shop) -> None:
    replies = await asyncio.gather(*(doings.show_receipt(shop, name) for name in ["ada", "bob"] * 10))
    assert {reply.status for reply in replies} == {200}
    assert sorted([await holds(shop, "ada"), await holds(shop, "bob")]) == [set(), {"pro"}]
    events = await doings.told(shop) + await doings.told(shop, "bob")
    assert [event["type"] for event in events].count("INITIAL_PURCHASE") == 1


async def test_another_receipt_for_the_same_product_is_another_purchase(shop: Shop) -> None:
    await doings.show_receipt(shop, "ada", "test_1_a")
    await doings.show_receipt(shop, "ada", "test_1_b")
    assert await doings.types_told(shop) == ["INITIAL_PURCHASE", "INITIAL_PURCHASE"]


async def test_a_receipt_for_coins_credits_them_once(shop: Shop) -> None:
    for _ in range(3):
        await doings.show_receipt(shop, "ada", product_id="coins_100")
    reply = await shop.client.get("/v1/subscribers/ada/virtual_currencies")
    assert reply.json()["virtual_currencies"]["COIN"]["balance"] == 100
    assert await doings.types_told(shop) == ["NON_RENEWING_PURCHASE", "VIRTUAL_CURRENCY_TRANSACTION"]


async def test_attributes_inside_the_receipt_are_noted_and_in_the_event(shop: Shop) -> None:
    noted = {"$email": {"value": "ada@example.com", "updated_at_ms": NOW}, "plan": {"value": "x", "updated_at_ms": NOW}}
    await doings.show_receipt(shop, "ada", attributes=noted)
    assert (await doings.subscriber(shop, "ada"))["subscriber_attributes"] == noted
    [event] = await doings.told(shop)
    assert event["subscriber_attributes"] == noted


async def test_attributes_inside_a_receipt_that_was_anothers_are_noted_too(shop: Shop) -> None:
    noted = {"plan": {"value": "x", "updated_at_ms": NOW}}
    await doings.show_receipt(shop, "ada")
    await doings.show_receipt(shop, "bob", attributes=noted)
    assert (await doings.subscriber(shop, "bob"))["subscriber_attributes"] == noted
    assert (await doings.subscriber(shop, "ada"))["subscriber_attributes"] == {}


async def test_the_offering_that_a_product_was_bought_from_is_kept_and_told(shop: Shop) -> None:
    offering = (await post(shop, "offerings", {"lookup_key": "autumn", "display_name": "Autumn"})).json()
    claims: dict[str, Any] = {doings.TOKEN: "autumn", f"{doings.TOKEN}a": "made up", f"{doings.TOKEN}b": 7}
    for token, claimed in claims.items():
        await doings.show_receipt(shop, "ada", token, "coins_100", presented_offering_identifier=claimed)
    shown = {
        token: (await get(shop, f"purchases?store_purchase_identifier={token}")).json()["items"][0] for token in claims
    }
    assert [one["presented_offering_id"] for one in shown.values()] == [offering["id"], None, None]
    events = [one for one in await doings.told(shop) if one["type"] == "NON_RENEWING_PURCHASE"]
    assert [one.get("presented_offering_id") for one in events] == ["autumn", None, None]


async def test_a_receipt_that_was_anothers_is_transferred_and_the_receiver_is_told(shop: Shop) -> None:
    await doings.show_receipt(shop, "ada")
    body = (await doings.show_receipt(shop, "bob", product_id=None, is_restore=True)).json()
    assert set(body["subscriber"]["entitlements"]) == {"pro"}
    assert (await doings.subscriber(shop, "ada"))["entitlements"] == {}
    [event] = await doings.told(shop, "bob")
    assert (event["type"], event["app_user_id"]) == ("TRANSFER", "bob")
    assert (event["transferred_from"], event["transferred_to"]) == (["ada"], ["bob"])
    assert set(event["entitlements"]) == {"pro"}
    assert await doings.types_told(shop, "ada") == ["INITIAL_PURCHASE"]


async def test_a_receipt_of_an_anonymous_owner_makes_an_alias_and_no_transfer(shop: Shop) -> None:
    await doings.show_receipt(shop, doings.ANONYMOUS)
    body = (await doings.show_receipt(shop, "bob")).json()
    assert body["subscriber"]["original_app_user_id"] == doings.ANONYMOUS
    assert (await shop.v2(quote(doings.ANONYMOUS))).json()["id"] == "bob"
    assert [item["id"] for item in (await get(shop, "customers/bob/aliases")).json()["items"]] == [
        doings.ANONYMOUS,
        "bob",
    ]
    assert await doings.types_told(shop, "bob") == ["INITIAL_PURCHASE", "SUBSCRIBER_ALIAS"]


async def test_an_anonymous_owner_is_joined_even_where_purchases_are_kept(shop: Shop) -> None:
    await shop.database.pool.execute("update projects set restore_behavior = 'keep'")
    await doings.show_receipt(shop, doings.ANONYMOUS)
    assert (await doings.show_receipt(shop, "bob")).status == 200
    assert await holds(shop, "bob") == {"pro"}


async def test_a_receipt_of_a_customer_on_a_test_clock_is_bought_at_its_time(shop: Shop) -> None:
    then = NOW + 500 * DAY
    await doings.move_in(shop, "ada", await doings.make_clock(shop, then))
    body = (await doings.show_receipt(shop, "ada")).json()
    assert body["request_date_ms"] == then
    assert body["subscriber"]["subscriptions"]["pro_monthly"]["purchase_date"] == to_iso(then)


def refused(reply: Reply, status: int, code: int) -> None:
    assert (reply.status, reply.json()["code"]) == (status, code), reply
    assert set(reply.json()) - {"attribute_errors"} == {"code", "message"}
    assert reply.json()["message"]


@pytest.fixture
async def unchanged(steady_shop: Shop) -> AsyncIterator[Shop]:
    before = await doings.count_rows(steady_shop)
    yield steady_shop
    assert await doings.count_rows(steady_shop) == before


@pytest.mark.parametrize(
    "token",
    ["x", "test_", "test_1", "test_1_", "test_x_1", "test_1_a b", "test_1_ä", "MIIT" * 1000, "test_1_" + "a" * 65],
)
async def test_a_token_of_no_store_is_7103(unchanged: Shop, token: str) -> None:
    refused(await doings.show_receipt(unchanged, "ada", token), 400, 7103)


@pytest.mark.parametrize("product", ["nothing", None])
async def test_a_product_that_the_project_does_not_have_is_7103(unchanged: Shop, product: str | None) -> None:
    refused(await doings.show_receipt(unchanged, "ada", product_id=product), 400, 7103)


async def test_a_receipt_of_another_is_7102_where_the_project_keeps_purchases(shop: Shop) -> None:
    await shop.database.pool.execute("update projects set restore_behavior = 'keep'")
    await doings.show_receipt(shop, "ada")
    before = await doings.count_rows(shop)
    refused(await doings.show_receipt(shop, "bob"), 422, 7102)
    assert await doings.count_rows(shop) == before
    assert (await shop.v2("bob")).status == 404
    assert (await doings.show_receipt(shop, "ada")).status == 200


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"app_user_id": ""}, 7220),
        ({"app_user_id": "null"}, 7256),
        ({"app_user_id": "a/b"}, 7256),
        ({"app_user_id": None}, 7226),
        ({"app_user_id": 7}, 7226),
        ({"fetch_token": ""}, 7103),
        ({"fetch_token": " "}, 7103),
        ({"fetch_token": None}, 7103),
        ({"fetch_token": 5}, 7226),
        ({"product_id": ""}, 7103),
        ({"product_id": 7}, 7103),
        ({"product_id": "x" * 201}, 7103),
        ({"product_id": None, "product_ids": "pro_monthly"}, 7103),
        ({"product_id": None, "product_ids": []}, 7103),
        ({"product_id": None, "product_ids": [7, "pro_monthly"]}, 7103),
    ],
)
async def test_a_field_that_is_wrong_is_400(unchanged: Shop, fields: dict[str, Any], code: int) -> None:
    body = {"app_user_id": "ada", "fetch_token": "test_1_a", "product_id": "pro_monthly", **fields}
    refused(await unchanged.client.post("/v1/receipts", body, key=unchanged.public), 400, code)


async def test_a_product_that_was_deleted_is_sold_no_more(shop: Shop) -> None:
    reply = await shop.client.request("DELETE", "/v2/projects/proj_demo/products/pro_lifetime")
    assert reply.status == 200
    refused(await doings.show_receipt(shop, "ada", product_id="pro_lifetime"), 400, 7103)


async def test_a_purchase_on_a_test_clock_cannot_be_restored_outside_it(shop: Shop) -> None:
    await doings.move_in(shop, "ada", await doings.make_clock(shop))
    await doings.show_receipt(shop, "ada")
    before = await doings.count_rows(shop)
    refused(await doings.show_receipt(shop, "bob"), 422, 7226)
    assert await doings.count_rows(shop) == before


GOOD = {"value": "x", "updated_at_ms": NOW}


async def bought(shop: Shop, headers: dict[str, str] | None = None, **fields: Any) -> Any:
    """What a receipt with these fields is answered. The purchase must have been stored."""
    body = {"app_user_id": "ada", "fetch_token": "test_1_a", "product_id": "pro_monthly", **fields}
    reply = await shop.client.post("/v1/receipts", body, key=shop.public, headers=headers or {})
    assert reply.status == 200, reply
    assert list(reply.json()["subscriber"]["subscriptions"]) == ["pro_monthly"]
    stored = (await shop.v1("ada")).json()["subscriber"]
    assert list(stored["subscriptions"]) == ["pro_monthly"]
    return reply.json()


async def saved(shop: Shop) -> dict[str, Any]:
    found: dict[str, Any] = (await shop.v1("ada")).json()["subscriber"]["subscriber_attributes"]
    return found


# `test_attributes_200_400.py` has more: receipts sort them in the same way.
WRONG: dict[str, tuple[str, Any]] = {
    "an address that is none": ("$email", {"value": "nobody", "updated_at_ms": NOW}),
    "a moment as prose": ("a", {"value": "b", "updated_at_ms": "now"}),
    "null": ("a", None),
}


@pytest.mark.parametrize("what", WRONG)
async def test_an_attribute_that_cannot_be_kept_is_named_and_the_others_are_saved(shop: Shop, what: str) -> None:
    name, wrong = WRONG[what]
    body = await bought(shop, attributes={"before": GOOD, name: wrong, "later": GOOD})
    assert set(body) == {"request_date", "request_date_ms", "subscriber", "attributes_error_response"}
    [error] = body["attributes_error_response"].pop("attribute_errors")
    assert body["attributes_error_response"] == {}
    assert set(error) == {"key_name", "message"}
    assert error["key_name"] == name
    assert error["message"]
    assert await saved(shop) == {"before": GOOD, "later": GOOD}


@pytest.mark.parametrize("escape", [rb"\u0000", rb"\uD83D", rb"\ude00", rb"\ud83d\u0000\ud83d"])
async def test_a_character_that_cannot_be_stored_is_left_out(shop: Shop, escape: bytes) -> None:
    """A text that ends with NULs, as C has it, or that was cut in the middle of an emoji."""
    attributes = {"name~": {"value": "\\\\u0000 \n~\\\\Ada 🎟~", "updated_at_ms": NOW}, "~": GOOD, "$email": GOOD}
    body = {"app_user_id": "ada", "fetch_token": "test_1_a", "product_id": "pro_monthly", "attributes": attributes}
    sent = ascii_json({**body, "metadata": {"~": ["~"]}, "paywall": "~"}).encode().replace(b"~", escape)
    reply = await shop.client.request("POST", "/v1/receipts", body=sent, key=shop.public)
    assert reply.status == 200, reply
    errors = reply.json()["attributes_error_response"]["attribute_errors"]
    assert [error["key_name"] for error in errors] == ["", "$email"]
    assert await saved(shop) == {"name": {"value": "\\\\u0000 \n\\\\Ada 🎟", "updated_at_ms": NOW}}


@pytest.mark.parametrize("field", ["app_user_id", "fetch_token"])
@pytest.mark.parametrize("escape", [rb"\u0000", rb"\ud83d"])
async def test_but_not_of_the_user_and_the_token(unchanged: Shop, field: str, escape: bytes) -> None:
    body = {"app_user_id": "ada", "fetch_token": "test_1_a", "product_id": "pro_monthly"}
    sent = ascii_json({**body, field: f'{body[field]}"~'}).encode().replace(b"~", escape)
    reply = await unchanged.client.request("POST", "/v1/receipts", body=sent, key=unchanged.public)
    refused(reply, 400, 7226)


@pytest.mark.parametrize(
    "fine", [{"value": "b"}, {"value": "b", "updated_at_ms": str(NOW)}, {"value": "b", "updated_at_ms": NOW, "more": 1}]
)
async def test_an_attribute_is_taken_as_it_comes(shop: Shop, fine: Any) -> None:
    await bought(shop, attributes={"a": fine})
    assert await saved(shop) == {"a": {"value": "b", "updated_at_ms": NOW}}


@pytest.mark.parametrize("attributes", [[], "x", 7, True, [GOOD]])
async def test_attributes_that_are_no_object_are_one_error(shop: Shop, attributes: Any) -> None:
    [error] = (await bought(shop, attributes=attributes))["attributes_error_response"]["attribute_errors"]
    assert error == {"key_name": "attributes", "message": "The attributes are not an object."}
    assert await saved(shop) == {}


@pytest.mark.parametrize("attributes", [None, {}, {"fine": GOOD}])
async def test_without_errors_the_reply_has_no_word_of_them(shop: Shop, attributes: Any) -> None:
    body = await bought(shop, attributes=attributes)
    assert set(body) == {"request_date", "request_date_ms", "subscriber"}


async def test_receipts_add_no_more_attributes_than_a_customer_may_have(shop: Shop) -> None:
    first, second = ({f"{part}{number:02}": GOOD for number in range(60)} for part in "ab")
    assert "attributes_error_response" not in await bought(shop, attributes=first)
    newer = {"value": "y", "updated_at_ms": NOW + 1}
    errors = (await bought(shop, attributes=second | {"a00": newer}))["attributes_error_response"]["attribute_errors"]
    assert [error["key_name"] for error in errors] == [f"b{number}" for number in range(40, 60)]
    found = await saved(shop)
    assert (len(found), found["a00"]) == (100, newer)


@pytest.mark.parametrize("platform", ["symbian", "", " ", "ios,android", "ios\xe4", "x" * 100])
async def test_a_platform_that_does_not_exist_is_not_noted(shop: Shop, platform: str) -> None:
    await bought(shop, {"x-platform": platform, "x-platform-version": "9", "x-version": "2.0"})
    await shop.presence.flush()
    shown = (await shop.v2("ada")).json()
    assert (shown["last_seen_platform"], shown["last_seen_platform_version"]) == (None, None)
    assert shown["last_seen_app_version"] == "2.0"


@pytest.mark.parametrize("wrong", ["pro_yearly", 7, True, {}, [], [""], [7], [None], {"0": "pro_yearly"}])
async def test_product_ids_beside_a_good_product_id_decide_nothing(shop: Shop, wrong: Any) -> None:
    await bought(shop, product_ids=wrong)


@pytest.mark.parametrize("wrong", [None, "", 7, True, {}, [], ["pro_yearly"], "x" * 201])
async def test_a_product_id_of_a_wrong_type_leaves_the_word_to_product_ids(shop: Shop, wrong: Any) -> None:
    await bought(shop, product_id=wrong, product_ids=["pro_monthly", 7])


async def test_a_purchase_that_is_known_needs_no_product(shop: Shop) -> None:
    await doings.show_receipt(shop, "ada", "test_1_a")
    await bought(shop, product_id=7, product_ids="x")
