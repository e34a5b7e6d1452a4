"""Offerings and packages in V2, what an app shows of them, and which offering a customer sees."""

from typing import Any

from latchkey.domain.customers.enrollment import Experiment, Variant, assign
from tests.http.client import NOW, Shop
from tests.http.doings import app_key
from tests.http.management import delete, get, patch, post, refused, walk

DEFAULT, TEAM = "offerings/ofrng_demo_default", "offerings/ofrng_demo_team"
MONTHLY = "packages/pkge_demo_monthly"


async def order(shop: Shop) -> list[tuple[str, int]]:
    return [(one["lookup_key"], one["position"]) for one in await walk(shop, f"{DEFAULT}/packages?limit=2")]


async def add(shop: Shop, lookup_key: str, **more: Any) -> Any:
    reply = await post(shop, f"{DEFAULT}/packages", {"lookup_key": lookup_key, "display_name": "One", **more})
    assert reply.status == 201, reply
    return reply.json()


async def test_the_first_offering_of_a_project_is_the_current_one(shop: Shop) -> None:
    for placement in ("onboarding", "team_settings"):
        assert (await delete(shop, f"placements/{placement}")).status == 200
    await patch(shop, DEFAULT, {"is_current": False})
    for one in await walk(shop, "offerings"):
        assert (await delete(shop, f"offerings/{one['id']}")).status == 200
    first = (await post(shop, "offerings", {"lookup_key": "one", "display_name": "One"})).json()
    second = (await post(shop, "offerings", {"lookup_key": "two", "display_name": "Two"})).json()
    assert (first["is_current"], second["is_current"]) == (True, False)


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


PATH = "/v1/subscribers/ada/offerings"
YEARLY = {"kind": "subscription", "duration": "P1Y", "price": 49, "currency": "EUR"}


async def shown(shop: Shop, key: str = "") -> Any:
    reply = await shop.client.get(PATH, key=key or shop.public)
    assert reply.status == 200, reply
    return reply.json()


def identifiers(body: Any, offering: str = "default") -> list[tuple[str, str]]:
    packages = next(one["packages"] for one in body["offerings"] if one["identifier"] == offering)
    return [(one["identifier"], one["platform_product_identifier"]) for one in packages]


async def test_200_with_an_old_android_sdk(shop: Shop) -> None:
    await post(shop, "products", {**YEARLY, "id": "pro:yearly"})
    attached = [
        {"product_id": "pro:yearly", "eligibility_criteria": "google_sdk_ge_6"},
        {"product_id": "pro_yearly", "eligibility_criteria": "google_sdk_lt_6"},
    ]
    await post(shop, "packages/pkge_demo_annual/actions/attach_products", {"products": attached})
    key = await app_key(shop, "play_store")
    for version, product in (("5.9.0", "pro_yearly"), ("6.0.1", "pro"), ("9.1.0-SNAPSHOT", "pro")):
        headers = {"x-platform": "android", "x-version": version}
        body = (await shop.client.get(PATH, key=key, headers=headers)).json()
        assert ("$rc_annual", product) in identifiers(body), version


async def test_200_with_everything_on_sale_while_no_package_has_a_product(shop: Shop) -> None:
    for offering in (await get(shop, "offerings?expand=items.package")).json()["items"]:
        for package in offering["packages"]["items"]:
            await delete(shop, f"packages/{package['id']}")
    body = await shown(shop)
    assert body == {
        "current_offering_id": "default",
        "offerings": [
            {
                "identifier": "default",
                "description": "Everything on sale",
                "metadata": {},
                # There are two monthly products, so neither is the monthly package.
                "packages": [
                    {"identifier": "coins_100", "platform_product_identifier": "coins_100"},
                    {"identifier": "$rc_lifetime", "platform_product_identifier": "pro_lifetime"},
                    {"identifier": "pro_monthly", "platform_product_identifier": "pro_monthly"},
                    {"identifier": "$rc_annual", "platform_product_identifier": "pro_yearly"},
                    {"identifier": "team_monthly", "platform_product_identifier": "team_monthly"},
                ],
                "paywall_components": None,
            }
        ],
        "placements": {"fallback_offering_id": "default", "offering_ids_by_placement": {}},
    }


async def test_200_with_another_current_offering(shop: Shop) -> None:
    assert (await patch(shop, "offerings/ofrng_demo_team", {"is_current": True})).status == 200
    assert (await shown(shop))["current_offering_id"] == "team"
    assert (await patch(shop, "offerings/ofrng_demo_team", {"is_current": False})).status == 200
    assert (await shown(shop))["current_offering_id"] is None


TEAM_ID, COINS_ID = "ofrng_demo_team", "ofrng_demo_coins"


async def current(shop: Shop, app_user_id: str = "ada", key: str = "") -> str | None:
    reply = await shop.client.get(f"/v1/subscribers/{app_user_id}/offerings", key=key or shop.public)
    assert reply.status == 200, reply
    shown: str | None = reply.json()["current_offering_id"]
    return shown


async def override(shop: Shop, offering_id: str, app_user_id: str = "ada") -> int:
    path = f"/v1/subscribers/{app_user_id}/offerings/{offering_id}/override"
    return (await shop.client.request("POST", path)).status


async def clear(shop: Shop, app_user_id: str = "ada") -> int:
    path = f"/v1/subscribers/{app_user_id}/offerings/override"
    return (await shop.client.request("DELETE", path)).status


async def assign_offering(shop: Shop, offering_id: str | None, app_user_id: str = "ada") -> int:
    path = f"customers/{app_user_id}/actions/assign_offering"
    reply = await post(shop, path, {"offering_id": offering_id})
    assert reply.status != 200 or reply.body == b""
    return reply.status


async def test_201_and_another_offering_until_it_is_cleared(shop: Shop) -> None:
    # The user is created.
    assert await override(shop, TEAM_ID) == 201
    assert await current(shop) == "team"
    assert await current(shop, "bob") == "default"
    assert await override(shop, COINS_ID) == 201
    assert await current(shop) == "coins"
    assert await clear(shop) == 201
    assert await current(shop) == "default"
    # It is cleared already.
    assert await clear(shop) == 201


async def test_200_without_a_body_in_v2(shop: Shop) -> None:
    await shop.note("ada", plan="x")
    assert await assign_offering(shop, TEAM_ID) == 200
    assert await current(shop) == "team"
    assert await assign_offering(shop, None) == 200
    assert await current(shop) == "default"


async def test_404(shop: Shop) -> None:
    assert await override(shop, "none") == 404
    assert await clear(shop, "nobody") == 404
    assert await assign_offering(shop, TEAM_ID, "nobody") == 404
    assert await assign_offering(shop, None, "nobody") == 404
    # A refused override creates nobody.
    assert (await get(shop, "customers/ada")).status == 404
    await shop.note("ada", plan="x")
    assert await assign_offering(shop, "none") == 404


async def test_the_override_goes_with_the_offering_and_with_the_customer(shop: Shop) -> None:
    await override(shop, COINS_ID)
    assert (await delete(shop, f"offerings/{COINS_ID}")).status == 200
    assert await current(shop) == "default"
    await override(shop, TEAM_ID)
    assert (await delete(shop, "customers/ada")).status == 200
    assert await current(shop) == "default"
    await shop.note("ada", plan="x")
    assert await current(shop) == "default"


async def test_every_id_of_a_customer_sees_it_also_after_a_merge(shop: Shop) -> None:
    anonymous = "$RCAnonymousID:0123456789abcdef0123456789abcdef"
    await override(shop, TEAM_ID, anonymous.replace("$", "%24").replace(":", "%3A"))
    await shop.note("ada", plan="x")
    body = {"app_user_id": anonymous, "new_app_user_id": "ada"}
    assert (await shop.client.post("/v1/subscribers/identify", body)).status == 200
    assert await current(shop, "ada") == "team"
    assert await current(shop, anonymous.replace("$", "%24").replace(":", "%3A")) == "team"


async def test_an_app_that_does_not_sell_it_shows_the_current_offering(shop: Shop) -> None:
    google = await app_key(shop, "play_store")
    await override(shop, TEAM_ID)
    # Its one subscription has no base plan.
    assert await current(shop, key=google) == "default"


async def test_a_variant_shows_its_offering(shop: Shop) -> None:
    variants = [{"id": "control", "weight": 1}, {"id": "b", "weight": 1, "offering_id": TEAM_ID}]
    made = (await post(shop, "experiments", {"name": "Teams first", "variants": variants})).json()
    assert [one["offering_id"] for one in made["variants"]] == [None, TEAM_ID]
    rule = Experiment(made["id"], "Teams first", (Variant("control", 1), Variant("b", 1)))
    names = [f"user{number}" for number in range(20)]
    control, treated = (next(one for one in names if assign(rule, one) == variant) for variant in ("control", "b"))
    for name in (control, treated):
        assert await current(shop, name) == "default"
        assert (await post(shop, f"experiments/{made['id']}/enroll", {"app_user_id": name})).status == 200
    assert (await current(shop, control), await current(shop, treated)) == ("default", "team")
    # An override is stronger.
    await override(shop, COINS_ID, treated)
    assert await current(shop, treated) == "coins"
    await clear(shop, treated)
    # The offering cannot be deleted while the experiment shows it.
    await delete(shop, "placements/team_settings")
    reply = await delete(shop, f"offerings/{TEAM_ID}")
    assert "the experiment 'Teams first' shows it" in reply.json()["message"]
    # Another offering for the variant, then none.
    for offering, shown in ((COINS_ID, "coins"), (None, "default")):
        changes = {"variants": [{"id": "b", "offering_id": offering}]}
        changed = await patch(shop, f"experiments/{made['id']}", changes)
        assert (changed.status, changed.json()["variants"][1]["offering_id"]) == (200, offering)
        assert await current(shop, treated) == shown
    assert (await delete(shop, f"offerings/{TEAM_ID}")).status == 200


async def test_404_for_a_variant_or_an_offering_that_does_not_exist(shop: Shop) -> None:
    variants = [{"id": "a", "weight": 1}, {"id": "b", "weight": 1, "offering_id": "none"}]
    refused(await post(shop, "experiments", {"name": "x", "variants": variants}), 404, "resource_missing", "variants")
    assert (await get(shop, "experiments")).json()["items"] == []
    variants[1]["offering_id"] = TEAM_ID
    made = (await post(shop, "experiments", {"name": "x", "variants": variants})).json()
    path = f"experiments/{made['id']}"
    for wrong in ({"id": "c", "offering_id": TEAM_ID}, {"id": "a", "offering_id": "none"}):
        refused(await patch(shop, path, {"variants": [wrong]}), 404, "resource_missing", "variants")
    none = await patch(shop, "experiments/none", {"variants": [{"id": "a", "offering_id": None}]})
    refused(none, 404, "resource_missing", "experiment_id")
    assert (await get(shop, path)).json() == made
