"""The project and its settings, by the status they give."""

from __future__ import annotations

from typing import Any

from tests.api.client import NOW, Shop
from tests.api.management import get, patch, refused

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"name": ""}, "name"),
    ({"name": None}, "name"),
    ({"name": "x" * 1501}, "name"),
    ({"restore_behavior": "steal"}, "restore_behavior"),
    ({"restore_behavior": None}, "restore_behavior"),
    ({"test_store": "ajar"}, "test_store"),
    ({"test_store": True}, "test_store"),
    ({"test_store": None}, "test_store"),
    ({"id": "proj_other"}, "id"),
    ({"catalog_version": 1}, "catalog_version"),
]


async def test_200_for_reading_and_changing_it(shop: Shop) -> None:
    before = await get(shop, "")
    assert before.json() == {
        "object": "project",
        "id": "proj_demo",
        "name": "Demo",
        "restore_behavior": "transfer",
        "test_store": "open",
        "created_at": NOW,
    }
    assert (await patch(shop, "", {"name": "Shop"})).json() == {**before.json(), "name": "Shop"}
    changed = await patch(shop, "", {"restore_behavior": "keep"})
    assert changed.json() == {**before.json(), "name": "Shop", "restore_behavior": "keep"}
    assert (await get(shop, "")).json() == changed.json()
    closed = await patch(shop, "", {"test_store": "closed"})
    assert closed.json() == {**changed.json(), "test_store": "closed"}
    assert (await patch(shop, "", {"name": "Demo"})).json()["test_store"] == "closed"


async def test_200_means_that_the_next_restore_obeys(shop: Shop) -> None:
    async def restore(app_user_id: str) -> int:
        receipt = {"app_user_id": app_user_id, "fetch_token": "test_1_a", "product_id": "pro_monthly"}
        reply = await shop.client.post("/v1/receipts", receipt, headers={"x-platform": "ios"}, key=shop.public)
        return reply.status

    assert await restore("ada") == 200
    await patch(shop, "", {"restore_behavior": "keep"})
    assert await restore("bob") >= 400
    await patch(shop, "", {"restore_behavior": "transfer"})
    assert await restore("bob") == 200


async def test_400_for_a_setting_that_cannot_be(shop: Shop) -> None:
    before = (await get(shop, "")).json()
    for sent, param in WRONG:
        refused(await patch(shop, "", sent), 400, "parameter_error", param)
    assert (await get(shop, "")).json() == before


async def test_403_for_another_project(shop: Shop) -> None:
    reply = await shop.client.get("/v2/projects/proj_other")
    refused(reply, 403, "authorization_error", None)
