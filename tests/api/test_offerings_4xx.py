"""Offerings and packages in V2: what is refused."""

from __future__ import annotations

import pytest

from latchkey.usecases.catalog.offerings import LARGEST_METADATA
from tests.api.client import Shop
from tests.api.management import delete, get, post, refused

DEFAULT, TEAM = "offerings/ofrng_demo_default", "offerings/ofrng_demo_team"
MONTHLY = "packages/pkge_demo_monthly"


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("offerings", {"display_name": "x"}, "lookup_key"),
        ("offerings", {"lookup_key": " ", "display_name": "x"}, "lookup_key"),
        ("offerings", {"lookup_key": "x" * 201, "display_name": "x"}, "lookup_key"),
        ("offerings", {"lookup_key": "x", "display_name": "x" * 1501}, "display_name"),
        ("offerings", {"lookup_key": "x", "display_name": "x", "metadata": [1]}, "metadata"),
        ("offerings", {"lookup_key": "x", "display_name": "x", "metadata": {"a": "x" * LARGEST_METADATA}}, "metadata"),
        ("offerings", {"lookup_key": "x", "display_name": "x", "is_current": True}, "is_current"),
        (TEAM, {"is_current": None}, "is_current"),
        (TEAM, {"display_name": ""}, "display_name"),
        (TEAM, {"lookup_key": "y"}, "lookup_key"),
        (f"{TEAM}/packages", {"lookup_key": "x", "display_name": "x", "position": 0}, "position"),
        (f"{TEAM}/packages", {"lookup_key": "x"}, "display_name"),
        (MONTHLY, {"position": 0}, "position"),
        (MONTHLY, {"position": None}, "position"),
        (f"{MONTHLY}/actions/attach_products", {"products": []}, "products"),
        (
            f"{MONTHLY}/actions/attach_products",
            {"products": [{"product_id": "pro_yearly", "eligibility_criteria": "some"}]},
            "products.0.eligibility_criteria",
        ),
        (f"{MONTHLY}/actions/detach_products", {"product_ids": []}, "product_ids"),
    ],
)
async def test_400(steady_shop: Shop, path: str, body: object, param: str) -> None:
    refused(await post(steady_shop, path, body), 400, "parameter_error", param)


@pytest.mark.parametrize("path", [f"{TEAM}?expand=products", "offerings?expand=package", f"{MONTHLY}?expand=app"])
async def test_400_for_something_that_cannot_be_expanded(steady_shop: Shop, path: str) -> None:
    refused(await get(steady_shop, path), 400, "parameter_error", "expand.0")


async def test_404(steady_shop: Shop) -> None:
    shop = steady_shop
    for reply in (await get(shop, "offerings/none"), await delete(shop, "offerings/none")):
        refused(reply, 404, "resource_missing", "offering_id")
    refused(await post(shop, "offerings/none", {"is_current": True}), 404, "resource_missing", "offering_id")
    new = {"lookup_key": "x", "display_name": "x"}
    refused(await post(shop, "offerings/none/packages", new), 404, "resource_missing", "offering_id")
    refused(await get(shop, "offerings/none/packages"), 404, "resource_missing", "offering_id")
    for reply in (await get(shop, "packages/none"), await delete(shop, "packages/none")):
        refused(reply, 404, "resource_missing", "package_id")
    refused(await get(shop, "packages/none/products"), 404, "resource_missing", "package_id")
    unknown = {"products": [{"product_id": "none"}]}
    refused(await post(shop, f"{MONTHLY}/actions/attach_products", unknown), 404, "resource_missing", "products")
    refused(
        await post(shop, f"{MONTHLY}/actions/detach_products", {"product_ids": ["none"]}),
        404,
        "resource_missing",
        "product_ids",
    )
    for path in ("offerings", f"{DEFAULT}/packages", f"{MONTHLY}/products"):
        refused(await get(shop, f"{path}?starting_after=none"), 404, "resource_missing", "starting_after")


async def test_409_for_a_lookup_key_that_is_taken(steady_shop: Shop) -> None:
    shop = steady_shop
    taken = {"lookup_key": "team", "display_name": "x"}
    refused(await post(shop, "offerings", taken), 409, "resource_already_exists", "lookup_key")
    taken = {"lookup_key": "$rc_monthly", "display_name": "x"}
    refused(await post(shop, f"{TEAM}/packages", taken), 409, "resource_already_exists", "lookup_key")


async def test_an_offering_in_use_is_not_deleted(steady_shop: Shop) -> None:
    current = await delete(steady_shop, DEFAULT)
    assert current.status in {409, 422}
    assert current.json()["message"] == (
        "'default' is still used: it is the current offering, the placement 'onboarding' shows it. Change that first."
    )
    placed = await delete(steady_shop, TEAM)
    assert "the placement 'team_settings' shows it" in placed.json()["message"]
