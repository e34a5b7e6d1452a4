"""Virtual currencies that are made, read, changed and deleted."""

from __future__ import annotations

from tests.api.client import NOW, Shop
from tests.api.management import delete, get, patch, post, walk


async def test_a_currency_is_made_read_changed_and_deleted(shop: Shop) -> None:
    made = await post(shop, "virtual_currencies", {"code": "GEM", "name": "Gems", "description": "Shiny\nand blue"})
    assert made.status == 201
    assert made.json()["description"] == "Shiny\nand blue"
    assert (await get(shop, "virtual_currencies/GEM")).json() == made.json()
    renamed = await patch(shop, "virtual_currencies/GEM", {"name": "Jewels"})
    assert renamed.json() == {**made.json(), "name": "Jewels"}
    described = await post(shop, "virtual_currencies/GEM", {"description": None})
    assert described.json() == {**renamed.json(), "description": None}
    gone = await delete(shop, "virtual_currencies/GEM")
    assert gone.json() == {"object": "virtual_currency", "id": "GEM", "deleted_at": NOW}
    assert (await get(shop, "virtual_currencies/GEM")).status == 404


async def test_currencies_are_listed_by_code(shop: Shop) -> None:
    for code in ("ZZZ", "AAA"):
        await post(shop, "virtual_currencies", {"code": code, "name": code})
    assert [item["code"] for item in await walk(shop, "virtual_currencies?limit=1")] == ["AAA", "COIN", "ZZZ"]


async def test_a_currency_that_only_a_deleted_product_came_with_can_be_deleted(shop: Shop) -> None:
    await delete(shop, "products/coins_100")
    assert (await delete(shop, "virtual_currencies/COIN")).status == 200
    again = {"id": "coins_100", "kind": "one_time", "price": 1, "currency": "USD"}
    assert (await post(shop, "products", again)).json()["credits"] is None
