"""POST /v1/receipts, when it is refused: each says why, because the app drops the transaction; nothing is changed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.api.client import Reply, Shop
from tests.api.doings import count_rows, make_clock, move_in, show_receipt


def refused(reply: Reply, status: int, code: int) -> None:
    assert (reply.status, reply.json()["code"]) == (status, code), reply
    assert set(reply.json()) - {"attribute_errors"} == {"code", "message"}
    assert reply.json()["message"]


@pytest.fixture
async def unchanged(steady_shop: Shop) -> AsyncIterator[Shop]:
    before = await count_rows(steady_shop)
    yield steady_shop
    assert await count_rows(steady_shop) == before


@pytest.mark.parametrize(
    "token",
    ["x", "test_", "test_1", "test_1_", "test_x_1", "test_1_a b", "test_1_ä", "MIIT" * 1000, "test_1_" + "a" * 65],
)
async def test_a_token_of_no_store_is_7103(unchanged: Shop, token: str) -> None:
    refused(await show_receipt(unchanged, "ada", token), 400, 7103)


@pytest.mark.parametrize("product", ["nothing", None])
async def test_a_product_that_the_project_does_not_have_is_7103(unchanged: Shop, product: str | None) -> None:
    refused(await show_receipt(unchanged, "ada", product_id=product), 400, 7103)


async def test_a_receipt_of_another_is_7102_where_the_project_keeps_purchases(shop: Shop) -> None:
    await shop.database.pool.execute("update projects set restore_behavior = 'keep'")
    await show_receipt(shop, "ada")
    before = await count_rows(shop)
    refused(await show_receipt(shop, "bob"), 422, 7102)
    assert await count_rows(shop) == before
    assert (await shop.v2("bob")).status == 404
    assert (await show_receipt(shop, "ada")).status == 200


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
    refused(await show_receipt(shop, "ada", product_id="pro_lifetime"), 400, 7103)


async def test_a_purchase_on_a_test_clock_cannot_be_restored_outside_it(shop: Shop) -> None:
    await move_in(shop, "ada", await make_clock(shop))
    await show_receipt(shop, "ada")
    before = await count_rows(shop)
    refused(await show_receipt(shop, "bob"), 422, 7226)
    assert await count_rows(shop) == before
