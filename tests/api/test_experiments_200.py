"""Experiments that are made, read and listed."""

from __future__ import annotations

from tests.api.client import Shop
from tests.api.management import get, post, walk

VARIANTS = [{"id": "control", "weight": 3}, {"id": "b", "weight": 1}]


async def test_a_new_experiment_is_shown_whole(shop: Shop) -> None:
    made = await post(shop, "experiments", {"name": "Paywall", "variants": VARIANTS})
    assert made.status == 201
    shown = made.json()
    assert shown.pop("id").startswith("exp_")
    assert shown["variants"] == [{**one, "offering_id": None} for one in VARIANTS]
    assert (await get(shop, f"experiments/{made.json()['id']}")).json() == made.json()


async def test_experiments_are_listed_oldest_first(shop: Shop) -> None:
    for name in ("zebra", "ape", "mole"):
        await post(shop, "experiments", {"name": name, "variants": VARIANTS})
        shop.clock.now += 1
    assert [item["name"] for item in await walk(shop, "experiments?limit=1")] == ["zebra", "ape", "mole"]


async def test_customers_are_enrolled_in_it_and_v2_shows_which_variant_they_see(shop: Shop) -> None:
    experiment = (await post(shop, "experiments", {"name": "Paywall", "variants": VARIANTS})).json()
    await post(shop, f"experiments/{experiment['id']}/enroll", {"app_user_id": "ada"})
    shown = (await shop.v2("ada")).json()["experiment"]
    assert (shown["id"], shown["name"]) == (experiment["id"], "Paywall")
    assert shown["variant"] in {"control", "b"}
