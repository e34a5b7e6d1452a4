"""Experiments and enrollments: once, stable, and seen in V2."""

import asyncio
from typing import Any

from tests.http.client import NOW, Shop
from tests.http.doings import ANONYMOUS, count_rows, told
from tests.http.management import post, refused, walk


async def experiment(shop: Shop, name: str = "Prices") -> str:
    variants = [{"id": "control", "weight": 1}, {"id": "a", "weight": 1}]
    reply = await post(shop, "experiments", {"name": name, "variants": variants})
    assert reply.status == 201, reply
    id: str = reply.json()["id"]
    return id


async def enroll(shop: Shop, id: str, who: str) -> Any:
    reply = await post(shop, f"experiments/{id}/enroll", {"app_user_id": who})
    assert reply.status == 200, reply
    return reply.json()


async def test_a_customer_is_enrolled_once_and_shows_it(steady_shop: Shop) -> None:
    id = await experiment(steady_shop)
    first = await enroll(steady_shop, id, "ann")
    assert first == {"object": "experiment_enrollment", "id": id, "name": "Prices", "variant": first["variant"]}
    again = await asyncio.gather(*(enroll(steady_shop, id, "ann") for _ in range(5)))
    assert all(one == first for one in again)
    assert (await steady_shop.v2("ann")).json()["experiment"] == first
    [event] = await told(steady_shop, "ann")
    assert (event["type"], event["experiment_id"], event["variant_id"]) == (
        "EXPERIMENT_ENROLLMENT",
        id,
        first["variant"],
    )
    assert event["event_timestamp_ms"] == NOW
    assert "experiment" not in (await steady_shop.v1("ann")).json()["subscriber"]


async def test_both_variants_are_given_and_an_alias_has_its_customers(steady_shop: Shop) -> None:
    id = await experiment(steady_shop, "Colours")
    variants = {(await enroll(steady_shop, id, f"user{number}"))["variant"] for number in range(24)}
    assert variants == {"control", "a"}
    mine = await enroll(steady_shop, id, ANONYMOUS)
    await steady_shop.client.post("/v1/subscribers/identify", {"app_user_id": ANONYMOUS, "new_app_user_id": "named"})
    assert await enroll(steady_shop, id, "named") == mine


async def test_the_last_of_several_experiments_is_shown(steady_shop: Shop) -> None:
    first, second = await experiment(steady_shop, "One"), await experiment(steady_shop, "Two")
    await enroll(steady_shop, first, "several")
    await enroll(steady_shop, second, "several")
    assert (await steady_shop.v2("several")).json()["experiment"]["name"] == "Two"


async def test_an_experiment_that_does_not_exist_makes_nobody(steady_shop: Shop) -> None:
    before = await count_rows(steady_shop)
    reply = await post(steady_shop, "experiments/exp_none/enroll", {"app_user_id": "stranger"})
    refused(reply, 404, "resource_missing", "experiment_id")
    assert await count_rows(steady_shop) == before


VARIANTS = [{"id": "control", "weight": 3}, {"id": "b", "weight": 1}]


async def test_experiments_are_listed_oldest_first(shop: Shop) -> None:
    for name in ("zebra", "ape", "mole"):
        await post(shop, "experiments", {"name": name, "variants": VARIANTS})
        shop.clock.now += 1
    assert [item["name"] for item in await walk(shop, "experiments?limit=1")] == ["zebra", "ape", "mole"]
