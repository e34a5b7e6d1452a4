"""Which offering a customer sees: assigned, by an experiment, or the current one."""

from __future__ import annotations

import pytest

from latchkey.domain.customers.experiment import Experiment, Variant, assign
from tests.api.client import Shop
from tests.api.doings import app_key
from tests.api.management import delete, get, patch, post, refused

TEAM, COINS = "ofrng_demo_team", "ofrng_demo_coins"


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
    assert await override(shop, TEAM) == 201
    assert await current(shop) == "team"
    assert await current(shop, "bob") == "default"
    assert await override(shop, COINS) == 201
    assert await current(shop) == "coins"
    assert await clear(shop) == 201
    assert await current(shop) == "default"
    # It is cleared already.
    assert await clear(shop) == 201


async def test_200_without_a_body_in_v2(shop: Shop) -> None:
    await shop.note("ada", plan="x")
    assert await assign_offering(shop, TEAM) == 200
    assert await current(shop) == "team"
    assert await assign_offering(shop, None) == 200
    assert await current(shop) == "default"


async def test_404(shop: Shop) -> None:
    assert await override(shop, "none") == 404
    assert await clear(shop, "nobody") == 404
    assert await assign_offering(shop, TEAM, "nobody") == 404
    assert await assign_offering(shop, None, "nobody") == 404
    # A refused override creates nobody.
    assert (await get(shop, "customers/ada")).status == 404
    await shop.note("ada", plan="x")
    assert await assign_offering(shop, "none") == 404


@pytest.mark.parametrize("body", [{}, {"offering_id": 7}, {"offering_id": ""}])
async def test_400(steady_shop: Shop, body: object) -> None:
    reply = await post(steady_shop, "customers/ada/actions/assign_offering", body)
    refused(reply, 400, "parameter_error", "offering_id")


async def test_the_override_goes_with_the_offering_and_with_the_customer(shop: Shop) -> None:
    await override(shop, COINS)
    assert (await delete(shop, f"offerings/{COINS}")).status == 200
    assert await current(shop) == "default"
    await override(shop, TEAM)
    assert (await delete(shop, "customers/ada")).status == 200
    assert await current(shop) == "default"
    await shop.note("ada", plan="x")
    assert await current(shop) == "default"


async def test_every_id_of_a_customer_sees_it_also_after_a_merge(shop: Shop) -> None:
    anonymous = "$RCAnonymousID:0123456789abcdef0123456789abcdef"
    await override(shop, TEAM, anonymous.replace("$", "%24").replace(":", "%3A"))
    await shop.note("ada", plan="x")
    body = {"app_user_id": anonymous, "new_app_user_id": "ada"}
    assert (await shop.client.post("/v1/subscribers/identify", body)).status == 200
    assert await current(shop, "ada") == "team"
    assert await current(shop, anonymous.replace("$", "%24").replace(":", "%3A")) == "team"


async def test_an_app_that_does_not_sell_it_shows_the_current_offering(shop: Shop) -> None:
    google = await app_key(shop, "play_store")
    await override(shop, TEAM)
    # Its one subscription has no base plan.
    assert await current(shop, key=google) == "default"


async def test_a_variant_shows_its_offering(shop: Shop) -> None:
    variants = [{"id": "control", "weight": 1}, {"id": "b", "weight": 1, "offering_id": TEAM}]
    made = (await post(shop, "experiments", {"name": "Teams first", "variants": variants})).json()
    assert [one["offering_id"] for one in made["variants"]] == [None, TEAM]
    rule = Experiment(made["id"], "Teams first", (Variant("control", 1), Variant("b", 1)))
    names = [f"user{number}" for number in range(20)]
    control, treated = (next(one for one in names if assign(rule, one) == variant) for variant in ("control", "b"))
    for name in (control, treated):
        assert await current(shop, name) == "default"
        assert (await post(shop, f"experiments/{made['id']}/enroll", {"app_user_id": name})).status == 200
    assert (await current(shop, control), await current(shop, treated)) == ("default", "team")
    # An override is stronger.
    await override(shop, COINS, treated)
    assert await current(shop, treated) == "coins"
    await clear(shop, treated)
    # The offering cannot be deleted while the experiment shows it.
    await delete(shop, "placements/team_settings")
    reply = await delete(shop, f"offerings/{TEAM}")
    assert "the experiment 'Teams first' shows it" in reply.json()["message"]
    # Another offering for the variant, then none.
    for offering, shown in ((COINS, "coins"), (None, "default")):
        changes = {"variants": [{"id": "b", "offering_id": offering}]}
        changed = await patch(shop, f"experiments/{made['id']}", changes)
        assert (changed.status, changed.json()["variants"][1]["offering_id"]) == (200, offering)
        assert await current(shop, treated) == shown
    assert (await delete(shop, f"offerings/{TEAM}")).status == 200


async def test_404_for_a_variant_or_an_offering_that_does_not_exist(shop: Shop) -> None:
    variants = [{"id": "a", "weight": 1}, {"id": "b", "weight": 1, "offering_id": "none"}]
    refused(await post(shop, "experiments", {"name": "x", "variants": variants}), 404, "resource_missing", "variants")
    assert (await get(shop, "experiments")).json()["items"] == []
    variants[1]["offering_id"] = TEAM
    made = (await post(shop, "experiments", {"name": "x", "variants": variants})).json()
    path = f"experiments/{made['id']}"
    for wrong in ({"id": "c", "offering_id": TEAM}, {"id": "a", "offering_id": "none"}):
        refused(await patch(shop, path, {"variants": [wrong]}), 404, "resource_missing", "variants")
    none = await patch(shop, "experiments/none", {"variants": [{"id": "a", "offering_id": None}]})
    refused(none, 404, "resource_missing", "experiment_id")
    assert (await get(shop, path)).json() == made
