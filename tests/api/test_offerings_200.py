"""Offerings and packages in V2: what succeeds."""

from __future__ import annotations

from typing import Any

from tests.api.client import NOW, Shop
from tests.api.management import delete, get, patch, post, walk

DEFAULT, TEAM = "offerings/ofrng_demo_default", "offerings/ofrng_demo_team"
MONTHLY = "packages/pkge_demo_monthly"


async def order(shop: Shop) -> list[tuple[str, int]]:
    return [(one["lookup_key"], one["position"]) for one in await walk(shop, f"{DEFAULT}/packages?limit=2")]


async def add(shop: Shop, lookup_key: str, **more: Any) -> Any:
    reply = await post(shop, f"{DEFAULT}/packages", {"lookup_key": lookup_key, "display_name": "One", **more})
    assert reply.status == 201, reply
    return reply.json()


async def test_201_for_a_new_offering(shop: Shop) -> None:
    reply = await post(shop, "offerings", {"lookup_key": "sale", "display_name": " Sale ", "metadata": {"a": [1]}})
    body = reply.json()
    assert (reply.status, body["id"][:6]) == (201, "ofrng_")
    assert (body["display_name"], body["is_current"], body["metadata"]) == ("Sale", False, {"a": [1]})
    assert (await get(shop, f"offerings/{body['id']}")).json() == body


async def test_the_first_offering_of_a_project_is_the_current_one(shop: Shop) -> None:
    for placement in ("onboarding", "team_settings"):
        assert (await delete(shop, f"placements/{placement}")).status == 200
    await patch(shop, DEFAULT, {"is_current": False})
    for one in await walk(shop, "offerings"):
        assert (await delete(shop, f"offerings/{one['id']}")).status == 200
    first = (await post(shop, "offerings", {"lookup_key": "one", "display_name": "One"})).json()
    second = (await post(shop, "offerings", {"lookup_key": "two", "display_name": "Two"})).json()
    assert (first["is_current"], second["is_current"]) == (True, False)


async def test_200_for_a_list_oldest_first(shop: Shop) -> None:
    assert [one["lookup_key"] for one in await walk(shop, "offerings?limit=1")] == ["default", "team", "coins"]


async def test_200_with_packages_and_products_inside(shop: Shop) -> None:
    plain = (await get(shop, TEAM)).json()
    assert "packages" not in plain
    packages = (await get(shop, f"{TEAM}?expand=package")).json()["packages"]
    assert packages["url"] == f"/v2/projects/{shop.project_id}/{TEAM}/packages"
    assert [one["lookup_key"] for one in packages["items"]] == ["$rc_monthly"]
    assert "products" not in packages["items"][0]
    full = (await get(shop, f"{TEAM}?expand=package&expand=package.product")).json()["packages"]["items"][0]
    assert full["products"]["url"] == f"/v2/projects/{shop.project_id}/packages/pkge_demo_team/products"
    (association,) = full["products"]["items"]
    assert association["eligibility_criteria"] == "all"
    assert association["product"] == (await get(shop, "products/team_monthly")).json()
    assert (await get(shop, "packages/pkge_demo_team?expand=product")).json() == full
    (listed,) = (await get(shop, f"{TEAM}/packages?expand=items.product")).json()["items"]
    assert listed == full
    every = (await get(shop, "offerings?expand=items.package.product")).json()["items"]
    assert every[1]["packages"]["items"] == [full]


async def test_200_for_changes_of_an_offering(shop: Shop) -> None:
    assert (await patch(shop, TEAM, {"display_name": "Teams"})).json()["metadata"] == {"headline": "Pro for all of you"}
    changed = (await post(shop, TEAM, {"is_current": True, "metadata": None})).json()
    assert (changed["display_name"], changed["is_current"], changed["metadata"]) == ("Teams", True, None)
    # There is only one.
    assert [one["lookup_key"] for one in await walk(shop, "offerings") if one["is_current"]] == ["team"]


async def test_200_for_an_offering_that_goes_with_its_packages(shop: Shop) -> None:
    reply = await delete(shop, "offerings/ofrng_demo_coins")
    assert reply.json() == {"object": "offering", "id": "ofrng_demo_coins", "deleted_at": NOW}
    assert (await get(shop, "packages/pkge_demo_coins")).status == 404
    assert (await get(shop, "products/coins_100")).status == 200


async def test_a_package_goes_where_it_is_put_and_the_others_move_on(shop: Shop) -> None:
    first = await add(shop, "$rc_weekly", position=1)
    assert first["position"] == 1
    last = await add(shop, "custom")
    assert last["position"] == 5
    assert (await add(shop, "far behind", position=99))["position"] == 6
    await patch(shop, f"packages/{last['id']}", {"position": 2})
    keys = ["$rc_weekly", "custom", "$rc_monthly", "$rc_annual", "$rc_lifetime", "far behind"]
    assert await order(shop) == [(key, place) for place, key in enumerate(keys, 1)]
    await delete(shop, f"packages/{first['id']}")
    assert await order(shop) == [(key, place) for place, key in enumerate(keys[1:], 1)]


async def test_200_for_a_renamed_package(shop: Shop) -> None:
    reply = await post(shop, MONTHLY, {"display_name": "By the month"})
    assert (reply.status, reply.json()["display_name"], reply.json()["position"]) == (200, "By the month", 1)


async def test_products_are_attached_once_and_detached(shop: Shop) -> None:
    attached = {"products": [{"product_id": "team_monthly", "eligibility_criteria": "google_sdk_ge_6"}]}
    for _ in range(2):
        reply = await post(shop, f"{MONTHLY}/actions/attach_products", attached)
        assert (reply.status, reply.json()["object"]) == (200, "package")
    listed = await walk(shop, f"{MONTHLY}/products?limit=1")
    assert [(one["product"]["id"], one["eligibility_criteria"]) for one in listed] == [
        ("pro_monthly", "all"),
        ("team_monthly", "google_sdk_ge_6"),
    ]
    for _ in range(2):
        detached = {"product_ids": ["pro_monthly"]}
        assert (await post(shop, f"{MONTHLY}/actions/detach_products", detached)).status == 200
    assert [one["product"]["id"] for one in await walk(shop, f"{MONTHLY}/products")] == ["team_monthly"]


async def test_a_deleted_product_stays_in_its_package_and_comes_back_with_the_product(shop: Shop) -> None:
    await delete(shop, "products/coins_100")
    (listed,) = await walk(shop, "packages/pkge_demo_coins/products")
    assert listed["product"]["deleted_at"] == NOW
    offered = (await shop.client.get("/v1/subscribers/ada/offerings", key=shop.public)).json()["offerings"]
    assert [one["identifier"] for one in offered] == ["default", "team"]
    await post(shop, "products", {"id": "coins_100", "kind": "one_time", "price": 1, "currency": "USD"})
    offered = (await shop.client.get("/v1/subscribers/ada/offerings", key=shop.public)).json()["offerings"]
    assert [one["identifier"] for one in offered] == ["default", "team", "coins"]
