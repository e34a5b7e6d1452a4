"""What an app can offer its user, by the status it gives."""

from __future__ import annotations

from typing import Any

from tests.api.client import Shop
from tests.api.doings import app_key
from tests.api.management import delete, get, patch, post, walk

PATH = "/v1/subscribers/ada/offerings"
YEARLY = {"kind": "subscription", "duration": "P1Y", "price": 49, "currency": "EUR"}


async def shown(shop: Shop, key: str = "") -> Any:
    reply = await shop.client.get(PATH, key=key or shop.public)
    assert reply.status == 200, reply
    return reply.json()


def identifiers(body: Any, offering: str = "default") -> list[tuple[str, str]]:
    packages = next(one["packages"] for one in body["offerings"] if one["identifier"] == offering)
    return [(one["identifier"], one["platform_product_identifier"]) for one in packages]


async def test_200_with_the_offerings_of_the_demo(shop: Shop) -> None:
    body = await shown(shop)
    assert body["current_offering_id"] == "default"
    assert body["offerings"][0] == {
        "identifier": "default",
        "description": "Pro plans",
        "metadata": {"headline": "Do more with Pro", "highlight": "$rc_annual"},
        "packages": [
            {"identifier": "$rc_monthly", "platform_product_identifier": "pro_monthly"},
            {"identifier": "$rc_annual", "platform_product_identifier": "pro_yearly"},
            {"identifier": "$rc_lifetime", "platform_product_identifier": "pro_lifetime"},
        ],
        "paywall_components": None,
    }
    assert [one["identifier"] for one in body["offerings"]] == ["default", "team", "coins"]
    assert body["placements"] == {
        "fallback_offering_id": "default",
        "offering_ids_by_placement": {"onboarding": "default", "team_settings": "team"},
    }


async def test_200_without_a_deleted_product(shop: Shop) -> None:
    await delete(shop, "products/pro_yearly")
    assert identifiers(await shown(shop)) == [("$rc_monthly", "pro_monthly"), ("$rc_lifetime", "pro_lifetime")]


async def test_200_also_for_a_secret_key(shop: Shop) -> None:
    assert await shown(shop, shop.secret) == await shown(shop)


async def test_200_at_google_with_the_base_plan_beside_the_product(shop: Shop) -> None:
    await post(shop, "products", {**YEARLY, "id": "pro:yearly"})
    await post(shop, "packages/pkge_demo_annual/actions/attach_products", {"products": [{"product_id": "pro:yearly"}]})
    body = await shown(shop, await app_key(shop, "play_store"))
    assert body["current_offering_id"] == "default"
    # The monthly subscription has no base plan, so the Android SDK could not use it.
    assert body["offerings"][0]["packages"] == [
        {
            "identifier": "$rc_annual",
            "platform_product_identifier": "pro",
            "platform_product_plan_identifier": "yearly",
        },
        {"identifier": "$rc_lifetime", "platform_product_identifier": "pro_lifetime"},
    ]
    # The offering with nothing but a subscription without a base plan is left out.
    assert [one["identifier"] for one in body["offerings"]] == ["default", "coins"]
    assert body["placements"]["offering_ids_by_placement"] == {"onboarding": "default"}
    # Other stores have no base plans.
    apple = await shown(shop, await app_key(shop, "app_store"))
    assert ("$rc_annual", "pro_yearly") in identifiers(apple)


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


async def test_200_with_no_offering_when_nothing_is_on_sale(shop: Shop) -> None:
    for product in await walk(shop, "products"):
        await delete(shop, f"products/{product['id']}")
    body = await shown(shop)
    assert (body["current_offering_id"], body["offerings"]) == (None, [])


async def test_200_with_another_current_offering(shop: Shop) -> None:
    assert (await patch(shop, "offerings/ofrng_demo_team", {"is_current": True})).status == 200
    assert (await shown(shop))["current_offering_id"] == "team"
    assert (await patch(shop, "offerings/ofrng_demo_team", {"is_current": False})).status == 200
    assert (await shown(shop))["current_offering_id"] is None


async def test_400_for_an_id_that_cannot_be_one(shop: Shop) -> None:
    reply = await shop.client.get("/v1/subscribers/null/offerings", key=shop.public)
    assert (reply.status, reply.json()["code"]) == (400, 7256)


async def test_401_without_a_key(shop: Shop) -> None:
    assert (await shop.client.get(PATH, key=None)).status == 401
