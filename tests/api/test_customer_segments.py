"""Customers by filter, and saved segments, over HTTP."""

from __future__ import annotations

import pytest

from latchkey.usecases.customer_lists.roller import FacetRoller, catch_up
from tests.api.client import Shop
from tests.api.management import delete, get, post


@pytest.fixture
async def people(shop: Shop) -> Shop:
    await catch_up(shop.database, shop.project_id, shop.clock.now)
    await shop.act("purchase", "tara", "pro_monthly", trial=True)
    await shop.act("purchase", "yves", "pro_yearly")
    await shop.note("visitor", city="Oslo")
    roller = FacetRoller(shop.database)
    for step in range(8):
        await roller.turn(shop.clock.now + 6000 * step)
    assert await catch_up(shop.database, shop.project_id, shop.clock.now + 60_000)
    return shop


async def ids(shop: Shop, query: str) -> list[str]:
    found: list[str] = []
    path: str | None = f"customer_list?{query}"
    while path is not None:
        page = (await get(shop, path)).json()
        found += [one["id"] for one in page["items"]]
        path = page["next_page"] and page["next_page"].removeprefix(f"/v2/projects/{shop.project_id}/")
    return found


async def test_customers_are_listed_by_filter_page_by_page(people: Shop) -> None:
    assert await ids(people, "sort=key&limit=1") == ["visitor", "yves", "tara"]
    assert await ids(people, "status=trial,never_bought&sort=key&limit=1") == ["visitor", "tara"]
    assert await ids(people, "sort=spent&limit=2&spent_from=1") == ["yves"]
    [tara] = (await get(people, "customer_list?status=trial")).json()["items"]
    assert (tara["status"], tara["products"], tara["spent_in_usd"]) == (["active", "trial"], ["pro_monthly"], 0)
    assert tara["trial_ends_at"] == tara["runs_until"] > people.clock.now


@pytest.mark.parametrize(
    "query",
    [
        "status=asleep",
        "spent_from=x",
        "country=Germany",
        "last_seen_after=soon",
        "trial_ends_within=0",
        "sort=shoe",
        "starting_after=x",
        "billing_issue=maybe",
        "segment_id=x&status=trial",
        "product_id=%00",
    ],
)
async def test_a_filter_that_cannot_be_understood_is_refused(people: Shop, query: str) -> None:
    reply = await get(people, f"customer_list?{query}")
    assert reply.status in (400, 422), reply
    assert reply.json()["object"] == "error"


async def test_a_segment_is_saved_listed_used_replaced_and_deleted(people: Shop) -> None:
    made = await post(people, "customer_segments", {"name": "Trials", "filter": {"status": "trial"}, "sort": "key"})
    assert made.status == 201, made
    segment = made.json()
    assert (segment["filter"], segment["sort"]) == ({"status": "trial"}, "key")
    assert await ids(people, f"segment_id={segment['id']}") == ["tara"]
    again = await post(people, "customer_segments", {"name": "trials", "filter": {"status": "never_bought"}})
    assert again.json()["id"] == segment["id"]
    assert await ids(people, f"segment_id={segment['id']}") == ["visitor"]
    assert [one["name"] for one in (await get(people, "customer_segments")).json()["items"]] == ["trials"]
    assert (await get(people, f"customer_segments/{segment['id']}")).status == 200
    for body in (
        {"name": "x", "filter": {"shoe": "9"}},
        {"name": "x", "filter": {}},
        {"name": "x", "filter": {"status": "?"}},
    ):
        assert (await post(people, "customer_segments", body)).status in (400, 422)
    assert (await delete(people, f"customer_segments/{segment['id']}")).status == 200
    assert (await get(people, f"customer_list?segment_id={segment['id']}")).status == 404
