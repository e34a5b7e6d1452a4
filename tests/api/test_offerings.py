"""What an app can offer its user, by the status it gives."""

from __future__ import annotations

from tests.api.client import Shop
from tests.api.management import delete, walk

PATH = "/v1/subscribers/ada/offerings"


async def test_200_with_one_offering_of_all_that_is_on_sale(shop: Shop) -> None:
    await delete(shop, "products/pro_yearly")
    reply = await shop.client.get(PATH, key=shop.public)
    assert reply.status == 200
    on_sale = ["coins_100", "pro_lifetime", "pro_monthly", "team_monthly"]
    assert reply.json() == {
        "current_offering_id": "default",
        "offerings": [
            {
                "identifier": "default",
                "description": "Everything on sale",
                "metadata": {},
                "packages": [{"identifier": id, "platform_product_identifier": id} for id in on_sale],
                "paywall_components": None,
            }
        ],
        "placements": {"fallback_offering_id": "default", "offering_ids_by_placement": {}},
    }


async def test_200_with_no_offering_when_nothing_is_on_sale(shop: Shop) -> None:
    for product in await walk(shop, "products"):
        await delete(shop, f"products/{product['id']}")
    body = (await shop.client.get(PATH, key=shop.public)).json()
    assert (body["current_offering_id"], body["offerings"]) == (None, [])


async def test_400_for_an_id_that_cannot_be_one(shop: Shop) -> None:
    reply = await shop.client.get("/v1/subscribers/null/offerings", key=shop.public)
    assert (reply.status, reply.json()["code"]) == (400, 7256)


async def test_401_without_a_key(shop: Shop) -> None:
    assert (await shop.client.get(PATH, key=None)).status == 401
