"""Changes to entitlements that are refused, and change nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import Shop
from tests.api.management import delete, get, holds, patch, post, refused, walk

ATTACH = "entitlements/team/actions/attach_products"
DETACH = "entitlements/team/actions/detach_products"


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "id"),
    ({"id": "a b"}, "id"),
    ({"id": "x" * 201}, "id"),
    ({"id": "max", "display_name": ""}, "display_name"),
    ({"id": "max", "display_name": "x" * 1501}, "display_name"),
    ({"id": "max", "lookup_key": "max"}, "lookup_key"),
]


async def test_400_for_an_entitlement_with_something_wrong(shop: Shop) -> None:
    for sent, param in WRONG:
        refused(await post(shop, "entitlements", sent), 400, "parameter_error", param)
    assert [item["id"] for item in await walk(shop, "entitlements")] == ["pro", "team"]


async def test_400_for_a_change_without_a_name(shop: Shop) -> None:
    refused(await patch(shop, "entitlements/pro", {}), 400, "parameter_error", "display_name")
    refused(await patch(shop, "entitlements/pro", {"display_name": None}), 400, "parameter_error", "display_name")


WRONG_PRODUCTS: list[tuple[dict[str, Any], str]] = [
    ({}, "product_ids"),
    ({"product_ids": []}, "product_ids"),
    ({"product_ids": "pro_yearly"}, "product_ids"),
    ({"product_ids": [7]}, "product_ids.0"),
    ({"product_ids": ["pro_yearly", ""]}, "product_ids.1"),
    ({"product_ids": ["x"] * 101}, "product_ids"),
    ({"product_ids": ["pro_yearly"], "force": True}, "force"),
]


@pytest.mark.parametrize("path", [ATTACH, DETACH])
async def test_400_for_products_that_cannot_be(shop: Shop, path: str) -> None:
    for sent, param in WRONG_PRODUCTS:
        refused(await post(shop, path, sent), 400, "parameter_error", param)


@pytest.mark.parametrize("path", [ATTACH, DETACH])
async def test_404_for_an_unknown_product_and_then_none_of_them_is_taken(shop: Shop, path: str) -> None:
    named = {"product_ids": ["pro_yearly", "team_monthly", "nothing"]}
    refused(await post(shop, path, named), 404, "resource_missing", "product_ids")
    assert [item["id"] for item in await walk(shop, "entitlements/team/products")] == ["team_monthly"]


async def test_404_for_attaching_a_deleted_product(shop: Shop) -> None:
    await delete(shop, "products/pro_yearly")
    refused(await post(shop, ATTACH, {"product_ids": ["pro_yearly"]}), 404, "resource_missing", "product_ids")


async def test_409_for_an_id_that_is_taken(shop: Shop) -> None:
    before = (await get(shop, "entitlements/pro")).json()
    refused(await post(shop, "entitlements", {"id": "pro"}), 409, "resource_already_exists", "id")
    assert (await get(shop, "entitlements/pro")).json() == before


async def test_409_for_deleting_what_products_grant_so_nobody_loses_access_by_it(shop: Shop) -> None:
    await shop.act("purchase", "ada", "team_monthly")
    reply = await delete(shop, "entitlements/team")
    refused(reply, 409, "unprocessable_entity_error", "entitlement_id")
    assert "'team_monthly'" in reply.json()["message"]
    assert await holds(shop, "ada") == {"pro", "team"}
