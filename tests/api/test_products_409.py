"""Products whose id is taken."""

from __future__ import annotations

import asyncio

from tests.api.client import Shop
from tests.api.management import PRODUCT, delete, get, post, refused


async def test_an_id_is_given_once(shop: Shop) -> None:
    before = (await get(shop, "products/pro_monthly")).json()
    again = await post(shop, "products", {**PRODUCT, "id": "pro_monthly"})
    refused(again, 409, "resource_already_exists", "id")
    assert (await get(shop, "products/pro_monthly")).json() == before


async def test_of_two_at_once_one_is_made(shop: Shop) -> None:
    replies = await asyncio.gather(*(post(shop, "products", PRODUCT) for _ in range(4)))
    assert sorted(reply.status for reply in replies) == [201, 409, 409, 409]


async def test_a_deleted_subscription_cannot_come_back_as_something_that_never_renews(shop: Shop) -> None:
    await delete(shop, "products/pro_monthly")
    other = {"id": "pro_monthly", "kind": "one_time", "price": 1, "currency": "USD"}
    refused(await post(shop, "products", other), 409, "resource_already_exists", "kind")
    assert (await get(shop, "products/pro_monthly")).status == 404
