"""Changes to virtual currencies that are refused, and change nothing."""

from __future__ import annotations

from typing import Any

from tests.api.client import Shop
from tests.api.management import PRODUCT, delete, get, patch, post, refused, walk

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"name": "Gems"}, "code"),
    ({"code": "GEM"}, "name"),
    ({"code": "G M", "name": "Gems"}, "code"),
    ({"code": "", "name": "Gems"}, "code"),
    ({"code": "GEM", "name": ""}, "name"),
    ({"code": "GEM", "name": "x" * 1501}, "name"),
    ({"code": "GEM", "name": "Gems", "description": "x" * 1501}, "description"),
    ({"code": "GEM", "name": "Gems", "description": "\u0007"}, "description"),
    ({"code": "GEM", "name": "Gems", "balance": 1}, "balance"),
]


async def test_400_for_a_currency_with_something_wrong(shop: Shop) -> None:
    for sent, param in WRONG:
        refused(await post(shop, "virtual_currencies", sent), 400, "parameter_error", param)
    assert [item["code"] for item in await walk(shop, "virtual_currencies")] == ["COIN"]


async def test_400_for_a_change_with_something_wrong(shop: Shop) -> None:
    before = (await get(shop, "virtual_currencies/COIN")).json()
    for sent, param in [({"name": None}, "name"), ({"name": " "}, "name"), ({"code": "X"}, "code")]:
        refused(await patch(shop, "virtual_currencies/COIN", sent), 400, "parameter_error", param)
    assert (await get(shop, "virtual_currencies/COIN")).json() == before


async def test_404_for_a_product_that_comes_with_an_unknown_currency(shop: Shop) -> None:
    reply = await post(shop, "products", {**PRODUCT, "credits": {"code": "GEM", "amount": 1}})
    refused(reply, 404, "resource_missing", "credits.code")
    assert (await get(shop, "products/max_monthly")).status == 404


async def test_409_for_a_code_that_is_taken(shop: Shop) -> None:
    reply = await post(shop, "virtual_currencies", {"code": "COIN", "name": "Other"})
    refused(reply, 409, "resource_already_exists", "code")


async def test_409_for_deleting_a_currency_that_a_product_comes_with(shop: Shop) -> None:
    reply = await delete(shop, "virtual_currencies/COIN")
    refused(reply, 409, "unprocessable_entity_error", "code")
    assert "'coins_100'" in reply.json()["message"]


async def test_409_for_deleting_a_currency_that_somebody_had(shop: Shop) -> None:
    await shop.act("purchase", "ada", "coins_100")
    await delete(shop, "products/coins_100")
    refused(await delete(shop, "virtual_currencies/COIN"), 409, "unprocessable_entity_error", "code")
    assert (await get(shop, "virtual_currencies/COIN")).status == 200
