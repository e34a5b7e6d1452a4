"""What the management API refuses, resource by resource: with the name of the field, and without changing anything.

`test_every_body_4xx.py` sends every field with values that the document does not allow, and unknown fields, to every
route. The forms of names, durations, prices and addresses are tables of the rules (`tests/domain`)."""

import asyncio
from typing import Any

import pytest

from latchkey.domain.instants import LATEST
from latchkey.subjects.offerings.usecases import LARGEST_METADATA
from tests.http.client import NOW, Shop
from tests.http.doings import count_rows, make_clock
from tests.http.management import PRODUCT, delete, get, holds, patch, post, refused, walk

DEFAULT, TEAM = "offerings/ofrng_demo_default", "offerings/ofrng_demo_team"
MONTHLY = "packages/pkge_demo_monthly"
ATTACH = "entitlements/team/actions/attach_products"
DETACH = "entitlements/team/actions/detach_products"
A = {"id": "a", "weight": 1}
OFFERING = {"lookup_key": "x", "display_name": "x"}


# A path, a body, and the field that is named, where the document alone does not say so.
WRONG_PRODUCTS: list[tuple[dict[str, Any], str]] = [
    ({"id": "rc_promo_pro_monthly"}, "id"),
    ({"duration": None}, "duration"),
    ({"duration": "P0D"}, "duration"),
    ({"price": 9.9999999}, "price"),
    ({"credits": {"code": "COIN", "amount": 2**53}}, "credits.amount"),
    ({"credits": {"amount": 1}}, "credits.code"),
    ({"credits": {"code": "COIN", "amount": 1, "bonus": 1}}, "credits.bonus"),
    ({"kind": "one_time", "duration": None, "trial_duration": "P7D"}, "trial_duration"),
]
WRONG: list[tuple[str, dict[str, Any], str]] = [
    *(("products", {**PRODUCT, **wrong}, param) for wrong, param in WRONG_PRODUCTS),
    ("products/pro_monthly", {"price": 5, "kind": "one_time"}, "kind"),
    ("products/pro_monthly", {"price": 5, "duration": None}, "duration"),
    (ATTACH, {"product_ids": ["pro_yearly", ""]}, "product_ids.1"),
    (DETACH, {"product_ids": ["x"] * 101}, "product_ids"),
    ("experiments", {"name": "x", "variants": [A, A]}, "variants"),
    ("experiments", {"name": "x", "variants": [{"id": f"v{n}", "weight": 1} for n in range(21)]}, "variants"),
    ("experiments", {"name": "x", "variants": [A, {"id": "b", "weight": 0}]}, "variants.1.weight"),
    ("experiments", {"name": "x", "variants": [A, {"id": "b c", "weight": 1}]}, "variants.1.id"),
    ("api_keys", {"name": "k", "scopes": ["admin"]}, "scopes.0"),
    ("offerings", {**OFFERING, "metadata": {"a": "x" * LARGEST_METADATA}}, "metadata"),
    (
        f"{MONTHLY}/actions/attach_products",
        {"products": [{"product_id": "pro_yearly", "eligibility_criteria": "some"}]},
        "products.0.eligibility_criteria",
    ),
]
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
    "offerings",
    f"{DEFAULT}/packages",
    f"{MONTHLY}/products",
    "test_clocks",
)
# Where nothing is, the parameter that is named, and what can be posted there; None where it cannot be read.
MISSING: list[tuple[str, str, Any]] = [
    ("products/none", "product_id", {"price": 1}),
    ("entitlements/none", "entitlement_id", {"display_name": "x"}),
    ("virtual_currencies/none", "code", {"name": "x"}),
    ("experiments/none", "experiment_id", None),
    ("apps/none", "app_id", None),
    ("apps/none/public_api_keys", "app_id", {}),
    ("offerings/none", "offering_id", {"is_current": True}),
    ("offerings/none/packages", "offering_id", OFFERING),
    ("packages/none", "package_id", None),
    ("packages/none/products", "package_id", None),
    ("test_clocks/none", "test_clock_id", None),
]
DELETABLE = {
    **{path: param for path, param, _ in MISSING if path.count("/") == 1 and not path.startswith("experiments")},
    "api_keys/none": "key_id",
}
POSTED_TO_NOTHING: list[tuple[str, dict[str, Any], str]] = [
    ("entitlements/none/actions/attach_products", {"product_ids": ["pro_monthly"]}, "entitlement_id"),
    (ATTACH, {"product_ids": ["pro_yearly", "team_monthly", "nothing"]}, "product_ids"),
    (DETACH, {"product_ids": ["pro_yearly", "team_monthly", "nothing"]}, "product_ids"),
    (f"{MONTHLY}/actions/attach_products", {"products": [{"product_id": "none"}]}, "products"),
    (f"{MONTHLY}/actions/detach_products", {"product_ids": ["none"]}, "product_ids"),
    ("products", {**PRODUCT, "credits": {"code": "GEM", "amount": 1}}, "credits.code"),
    ("test_clocks/none/advance", {"by": "P1D"}, "test_clock_id"),
]
TAKEN: list[tuple[str, dict[str, Any], str]] = [
    ("products", {**PRODUCT, "id": "pro_monthly"}, "id"),
    ("entitlements", {"id": "pro"}, "id"),
    ("virtual_currencies", {"code": "COIN", "name": "Other"}, "code"),
    ("offerings", {**OFFERING, "lookup_key": "team"}, "lookup_key"),
    (f"{TEAM}/packages", {**OFFERING, "lookup_key": "$rc_monthly"}, "lookup_key"),
]


async def test_400_for_something_wrong_and_nothing_changes(shop: Shop) -> None:
    before = await count_rows(shop)
    for path, body, param in WRONG:
        refused(await post(shop, path, body), 400, "parameter_error", param)
    assert {**await count_rows(shop), "audit_log": 0} == {**before, "audit_log": 0}


async def test_404_for_whatever_is_not_there(shop: Shop) -> None:
    for path, param, body in MISSING:
        refused(await get(shop, path), 404, "resource_missing", param)
        if body is not None:
            refused(await post(shop, path, body), 404, "resource_missing", param)
    for path, param in DELETABLE.items():
        refused(await delete(shop, path), 404, "resource_missing", param)
    for path, body, param in POSTED_TO_NOTHING:
        refused(await post(shop, path, body), 404, "resource_missing", param)
    # None of the named products was taken.
    assert [item["id"] for item in await walk(shop, "entitlements/team/products")] == ["team_monthly"]


async def test_400_or_404_for_a_page_that_cannot_be(shop: Shop) -> None:
    for path in LISTS:
        refused(await get(shop, f"{path}?starting_after=%00"), 400, "parameter_error", "starting_after")
        for limit in ("0", "-1", "x", ""):
            refused(await get(shop, f"{path}?limit={limit}"), 400, "parameter_error", "limit")
        assert (await get(shop, f"{path}/%00")).status == 400
    for path in (
        "experiments",
        "apps",
        "api_keys",
        "offerings",
        f"{DEFAULT}/packages",
        f"{MONTHLY}/products",
        "test_clocks",
    ):
        refused(await get(shop, f"{path}?starting_after=none"), 404, "resource_missing", "starting_after")
    for path in (f"{TEAM}?expand=products", "offerings?expand=package", f"{MONTHLY}?expand=app"):
        refused(await get(shop, path), 400, "parameter_error", "expand.0")


async def test_405_lists_what_the_path_answers(shop: Shop) -> None:
    reply = await shop.client.request("PUT", f"/v2/projects/{shop.project_id}/products/pro_monthly")
    assert reply.status == 405
    assert reply.headers["allow"] == "DELETE, GET, HEAD, PATCH, POST"


async def test_409_for_an_id_that_is_taken(shop: Shop) -> None:
    before = (await get(shop, "products/pro_monthly")).json()
    for path, body, param in TAKEN:
        refused(await post(shop, path, body), 409, "resource_already_exists", param)
    assert (await get(shop, "products/pro_monthly")).json() == before
    replies = await asyncio.gather(*(post(shop, "products", PRODUCT) for _ in range(4)))
    assert sorted(reply.status for reply in replies) == [201, 409, 409, 409]


async def test_a_deleted_product_is_not_attached_and_does_not_come_back_as_something_that_never_renews(
    shop: Shop,
) -> None:
    await delete(shop, "products/pro_monthly")
    refused(await post(shop, ATTACH, {"product_ids": ["pro_monthly"]}), 404, "resource_missing", "product_ids")
    other = {"id": "pro_monthly", "kind": "one_time", "price": 1, "currency": "USD"}
    refused(await post(shop, "products", other), 409, "resource_already_exists", "kind")
    assert (await get(shop, "products/pro_monthly")).status == 404


async def test_409_for_deleting_what_is_in_use(shop: Shop) -> None:
    await shop.act("purchase", "ada", "team_monthly")
    await shop.act("purchase", "ada", "coins_100")
    for path, param, words in (
        ("entitlements/team", "entitlement_id", "'team_monthly'"),
        ("virtual_currencies/COIN", "code", "'coins_100'"),
        (TEAM, "offering_id", "the placement 'team_settings' shows it"),
    ):
        reply = await delete(shop, path)
        refused(reply, 409, "unprocessable_entity_error", param)
        assert words in reply.json()["message"]
    assert await holds(shop, "ada") == {"pro", "team"}
    assert (await delete(shop, DEFAULT)).json()["message"] == (
        "'default' is still used: it is the current offering, the placement 'onboarding' shows it. Change that first."
    )
    # A balance that somebody had stays readable.
    await delete(shop, "products/coins_100")
    refused(await delete(shop, "virtual_currencies/COIN"), 409, "unprocessable_entity_error", "code")


async def test_a_patch_refuses_what_a_post_refuses(shop: Shop) -> None:
    before = (await get(shop, "products/pro_monthly")).json()
    for path, changes, param in WRONG:
        if path == "products/pro_monthly":
            refused(await patch(shop, path, changes), 400, "parameter_error", param)
    refused(await patch(shop, "entitlements/pro", {}), 400, "parameter_error", "display_name")
    assert (await get(shop, "products/pro_monthly")).json() == before


async def test_404_for_a_key_of_another_app(shop: Shop) -> None:
    other = (await post(shop, "apps", {"name": "Phone", "store": "play_store"})).json()["public_api_key"]
    refused(await delete(shop, f"apps/app_demo/public_api_keys/{other['id']}"), 404, "resource_missing", "key_id")
    assert (await shop.v1("ada", key=other["key"])).status == 201


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({}, 400, "by"),
        ({"by": "P1D", "to_ms": NOW + 1}, 400, "by"),
        ({"by": "P0D"}, 400, "by"),
        ({"by": "P9999Y9999M9999W9999DT99999H99999M999999S"}, 400, "by"),
        ({"by": "P99Y999M"}, 422, "by"),
        ({"to_ms": NOW - 1}, 422, "to_ms"),
        ({"to_ms": LATEST + 1}, 400, "to_ms"),
    ],
)
async def test_a_move_of_a_clock_that_cannot_be_is_refused_and_the_clock_stands(
    steady_shop: Shop, body: dict[str, Any], status: int, param: str
) -> None:
    clock = await make_clock(steady_shop)
    kind = "parameter_error" if status == 400 else "unprocessable_entity_error"
    refused(await post(steady_shop, f"test_clocks/{clock}/advance", body), status, kind, param)
    assert (await get(steady_shop, f"test_clocks/{clock}")).json()["now_ms"] == NOW


async def test_time_can_reach_the_last_moment_and_people_live_there(steady_shop: Shop) -> None:
    clock = await make_clock(steady_shop, LATEST - 1)
    body = {"id": "last", "test_clock_id": clock}
    assert (await post(steady_shop, "customers", body)).status == 201
    action = {"action": "purchase", "app_user_id": "last", "product_id": "pro_yearly"}
    assert (await post(steady_shop, "test_store/actions", action)).status == 200
    assert (await post(steady_shop, f"test_clocks/{clock}/advance", {"to_ms": LATEST})).status == 200
    assert (await steady_shop.v1("last")).status == 200
