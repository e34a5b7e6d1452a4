"""POST /v1/receipts with an error beside the purchase: the purchase is accepted, on the fast path and without it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import NOW, Client, Shop
from tests.api.doings import show_receipt
from tests.api.test_writes import framework

GOOD = {"value": "x", "updated_at_ms": NOW}


@pytest.fixture(params=["in front", "framework"])
def client(request: pytest.FixtureRequest, shop: Shop) -> Client:
    return shop.client if request.param == "in front" else framework(shop)


async def bought(client: Client, shop: Shop, headers: dict[str, str] | None = None, **fields: Any) -> Any:
    """What a receipt with these fields is answered. The purchase must have been stored."""
    body = {"app_user_id": "ada", "fetch_token": "test_1_a", "product_id": "pro_monthly", **fields}
    reply = await client.post("/v1/receipts", body, key=shop.public, headers=headers or {})
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
async def test_an_attribute_that_cannot_be_kept_is_named_and_the_others_are_saved(
    client: Client, shop: Shop, what: str
) -> None:
    name, wrong = WRONG[what]
    body = await bought(client, shop, attributes={"before": GOOD, name: wrong, "later": GOOD})
    assert set(body) == {"request_date", "request_date_ms", "subscriber", "attributes_error_response"}
    [error] = body["attributes_error_response"].pop("attribute_errors")
    assert body["attributes_error_response"] == {}
    assert set(error) == {"key_name", "message"}
    assert error["key_name"] == name
    assert error["message"]
    assert await saved(shop) == {"before": GOOD, "later": GOOD}


@pytest.mark.parametrize(
    "fine", [{"value": "b"}, {"value": "b", "updated_at_ms": str(NOW)}, {"value": "b", "updated_at_ms": NOW, "more": 1}]
)
async def test_an_attribute_is_taken_as_it_comes(client: Client, shop: Shop, fine: Any) -> None:
    await bought(client, shop, attributes={"a": fine})
    assert await saved(shop) == {"a": {"value": "b", "updated_at_ms": NOW}}


@pytest.mark.parametrize("attributes", [[], "x", 7, True, [GOOD]])
async def test_attributes_that_are_no_object_are_one_error(client: Client, shop: Shop, attributes: Any) -> None:
    [error] = (await bought(client, shop, attributes=attributes))["attributes_error_response"]["attribute_errors"]
    assert error == {"key_name": "attributes", "message": "The attributes are not an object."}
    assert await saved(shop) == {}


@pytest.mark.parametrize("attributes", [None, {}, {"fine": GOOD}])
async def test_without_errors_the_reply_has_no_word_of_them(client: Client, shop: Shop, attributes: Any) -> None:
    body = await bought(client, shop, attributes=attributes)
    assert set(body) == {"request_date", "request_date_ms", "subscriber"}


@pytest.mark.parametrize("platform", ["symbian", "", " ", "ios,android", "ios\xe4", "x" * 100])
async def test_a_platform_that_does_not_exist_is_not_noted(client: Client, shop: Shop, platform: str) -> None:
    await bought(client, shop, {"x-platform": platform, "x-platform-version": "9", "x-version": "2.0"})
    await shop.presence.flush()
    shown = (await shop.v2("ada")).json()
    assert (shown["last_seen_platform"], shown["last_seen_platform_version"]) == (None, None)
    assert shown["last_seen_app_version"] == "2.0"


@pytest.mark.parametrize("wrong", ["pro_yearly", 7, True, {}, [], [""], [7], [None], {"0": "pro_yearly"}])
async def test_product_ids_beside_a_good_product_id_decide_nothing(client: Client, shop: Shop, wrong: Any) -> None:
    await bought(client, shop, product_ids=wrong)


@pytest.mark.parametrize("wrong", [None, "", 7, True, {}, [], ["pro_yearly"], "x" * 201])
async def test_a_product_id_of_a_wrong_type_leaves_the_word_to_product_ids(
    client: Client, shop: Shop, wrong: Any
) -> None:
    await bought(client, shop, product_id=wrong, product_ids=["pro_monthly", 7])


async def test_a_purchase_that_is_known_needs_no_product(client: Client, shop: Shop) -> None:
    await show_receipt(shop, "ada", "test_1_a")
    await bought(client, shop, product_id=7, product_ids="x")
