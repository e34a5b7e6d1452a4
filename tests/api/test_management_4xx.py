"""Errors that are the same for every resource of the management API."""

from __future__ import annotations

from tests.api.client import Shop
from tests.api.management import get, post, refused

LISTS = (
    "products",
    "entitlements",
    "entitlements/pro/products",
    "virtual_currencies",
    "experiments",
    "apps",
    "apps/app_demo/public_api_keys",
    "api_keys",
    "customers",
)
MISSING = {
    "products/none": "product_id",
    "entitlements/none": "entitlement_id",
    "entitlements/none/products": "entitlement_id",
    "virtual_currencies/none": "code",
    "experiments/none": "experiment_id",
    "apps/none": "app_id",
    "apps/none/public_api_keys": "app_id",
}
DELETABLE = ("products/none", "entitlements/none", "virtual_currencies/none", "apps/none", "api_keys/none")
CHANGES = {
    "products/none": {"price": 1},
    "entitlements/none": {"display_name": "x"},
    "virtual_currencies/none": {"name": "x"},
    "entitlements/none/actions/attach_products": {"product_ids": ["pro_monthly"]},
    "entitlements/none/actions/detach_products": {"product_ids": ["pro_monthly"]},
}


async def test_404_for_whatever_is_not_there(shop: Shop) -> None:
    for path, param in MISSING.items():
        refused(await get(shop, path), 404, "resource_missing", param)
    for path, change in CHANGES.items():
        assert (await post(shop, path, change)).status == 404, path
    for path in DELETABLE:
        reply = await shop.client.request("DELETE", f"/v2/projects/{shop.project_id}/{path}")
        assert reply.status == 404, path


async def test_400_for_a_path_or_a_page_with_a_nul_in_it(shop: Shop) -> None:
    for path in LISTS:
        refused(await get(shop, f"{path}?starting_after=%00"), 400, "parameter_error", "starting_after")
        refused(await get(shop, f"{path}?limit=0"), 400, "parameter_error", "limit")
        assert (await get(shop, f"{path}/%00")).status == 400


async def test_405_lists_what_the_path_answers(shop: Shop) -> None:
    reply = await shop.client.request("PUT", f"/v2/projects/{shop.project_id}/products/pro_monthly")
    assert reply.status == 405
    assert reply.headers["allow"] == "DELETE, GET, HEAD, PATCH, POST"
