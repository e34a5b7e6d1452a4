"""Invalid products: each is refused with the name of the wrong field, and nothing changes."""

from __future__ import annotations

from typing import Any

from tests.api.client import Shop
from tests.api.management import PRODUCT, get, patch, post, refused, walk

ONE_TIME = {"id": "thing", "kind": "one_time", "price": 1, "currency": "USD"}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"id": ""}, "id"),
    ({"id": "a b"}, "id"),
    ({"id": "a/b"}, "id"),
    ({"id": "é"}, "id"),
    ({"id": ".."}, "id"),
    ({"id": "x" * 201}, "id"),
    ({"id": 7}, "id"),
    ({"id": "rc_promo_pro_monthly"}, "id"),
    ({"id": None}, "id"),
    ({"display_name": ""}, "display_name"),
    ({"display_name": "   "}, "display_name"),
    ({"display_name": "x" * 1501}, "display_name"),
    ({"display_name": "a\nb"}, "display_name"),
    ({"display_name": ["a"]}, "display_name"),
    ({"kind": "rental"}, "kind"),
    ({"kind": None}, "kind"),
    ({"duration": None}, "duration"),
    ({"duration": "1 month"}, "duration"),
    ({"duration": "P0D"}, "duration"),
    ({"duration": "P"}, "duration"),
    ({"duration": "PT"}, "duration"),
    ({"duration": "P1M\n"}, "duration"),
    ({"duration": "-P1M"}, "duration"),
    ({"duration": "P9999Y"}, "duration"),
    ({"duration": 30}, "duration"),
    ({"trial_duration": "week"}, "trial_duration"),
    ({"price": -0.01}, "price"),
    ({"price": 1_000_000.01}, "price"),
    ({"price": 1e300}, "price"),
    ({"price": 0.0000001}, "price"),
    ({"price": 9.9999999}, "price"),
    ({"price": "9.99"}, "price"),
    ({"price": True}, "price"),
    ({"price": None}, "price"),
    ({"currency": "usd"}, "currency"),
    ({"currency": "US"}, "currency"),
    ({"currency": "USDT"}, "currency"),
    ({"currency": 1}, "currency"),
    ({"credits": {"code": "COIN", "amount": 0}}, "credits.amount"),
    ({"credits": {"code": "COIN", "amount": 1.5}}, "credits.amount"),
    ({"credits": {"code": "COIN", "amount": 2**53}}, "credits.amount"),
    ({"credits": {"code": "COIN"}}, "credits.amount"),
    ({"credits": {"amount": 1}}, "credits.code"),
    ({"credits": {"code": "CO IN", "amount": 1}}, "credits.code"),
    ({"credits": {"code": "COIN", "amount": 1, "bonus": 1}}, "credits.bonus"),
    ({"credits": "COIN"}, "credits"),
    ({"colour": "red"}, "colour"),
]
WRONG_CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"kind": "one_time"}, "kind"),
    ({"id": "other"}, "id"),
    ({"duration": None}, "duration"),
    ({"price": None}, "price"),
    ({"price": -1}, "price"),
    ({"currency": None}, "currency"),
    ({"display_name": ""}, "display_name"),
    ({"entitlement_ids": ["team"]}, "entitlement_ids"),
]


async def test_a_product_with_something_wrong_is_not_made(shop: Shop) -> None:
    before = await walk(shop, "products")
    for wrong, param in WRONG:
        refused(await post(shop, "products", {**PRODUCT, **wrong}), 400, "parameter_error", param)
    assert await walk(shop, "products") == before


async def test_what_every_product_has_must_be_given(shop: Shop) -> None:
    for missing in ("id", "kind", "price", "currency"):
        given = {name: value for name, value in PRODUCT.items() if name != missing}
        refused(await post(shop, "products", given), 400, "parameter_error", missing)


async def test_only_a_subscription_can_have_a_trial(shop: Shop) -> None:
    refused(
        await post(shop, "products", {**ONE_TIME, "trial_duration": "P7D"}), 400, "parameter_error", "trial_duration"
    )


async def test_a_change_with_something_wrong_changes_nothing(shop: Shop) -> None:
    before = (await get(shop, "products/pro_monthly")).json()
    for changes, param in WRONG_CHANGES:
        refused(await patch(shop, "products/pro_monthly", changes), 400, "parameter_error", param)
        refused(await post(shop, "products/pro_monthly", {"price": 5, **changes}), 400, "parameter_error", param)
    assert (await get(shop, "products/pro_monthly")).json() == before


async def test_a_body_that_is_no_object_is_refused(shop: Shop) -> None:
    for body in (b"[]", b'"x"', b"null", b"{", b'{"id": "\\u0000"}', b"\xff", b""):
        reply = await shop.client.post("/v2/projects/proj_demo/products", body=body)
        assert reply.status == 400, body
        assert reply.json()["object"] == "error"


async def test_a_page_that_cannot_be_is_refused(shop: Shop) -> None:
    for query in ("limit=0", "limit=-1", "limit=x", "limit=", "starting_after=%00"):
        refused(await get(shop, f"products?{query}"), 400, "parameter_error", query.split("=")[0])
