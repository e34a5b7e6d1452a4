"""Customers by filter, saved segments and bulk grants over HTTP."""

import pytest

from latchkey.subjects.bulk_grants.usecases import run_next
from latchkey.subjects.segments.usecases.projector import Roller, catch_up
from tests.http.client import DAY, Shop
from tests.http.management import delete, get, post, refused


@pytest.fixture
async def people(shop: Shop) -> Shop:
    await catch_up(shop.database, shop.project_id, shop.clock.now)
    await shop.act("purchase", "tara", "pro_monthly", trial=True)
    await shop.act("purchase", "yves", "pro_yearly")
    await shop.note("visitor", city="Oslo")
    roller = Roller(shop.database)
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
    assert await ids(people, "status=trial&status=never_bought&sort=key&limit=1") == ["visitor", "tara"]
    assert await ids(people, "sort=spent&limit=2&spent_from=1") == ["yves"]
    [tara] = (await get(people, "customer_list?status=trial")).json()["items"]
    assert (tara["status"], tara["products"], tara["spent_in_usd"]) == (["active", "trial"], ["pro_monthly"], 0)
    assert tara["trial_ends_at"] == tara["runs_until"] > people.clock.now


async def test_the_overview_counts_customers_who_were_seen_in_the_last_28_days(people: Shop) -> None:
    async def active(environment: str) -> object:
        body = (await get(people, f"metrics/overview?environment={environment}")).json()
        [one] = [one for one in body["metrics"] if one["id"] == "active_users"]
        assert (one["unit"], one["period"]) == ("#", "P28D")
        return one["value"]

    # The test store sells in the sandbox; who bought nothing is in production.
    assert (await active("sandbox"), await active("production")) == (2, 1)
    people.clock.now += 27 * DAY
    assert await active("sandbox") == 2
    people.clock.now += DAY
    assert await active("sandbox") == 0


async def test_a_list_says_how_many_customers_it_does_not_have_yet(people: Shop) -> None:
    page = (await get(people, "customer_list?status=trial")).json()
    assert (page["complete"], page["missing_customers"]) == (True, 0)
    await people.note("late_1", city="Oslo")
    await people.note("late_2", city="Oslo")
    page = (await get(people, "customer_list?status=trial")).json()
    assert (page["complete"], page["missing_customers"]) == (False, 2)


async def test_a_filter_that_cannot_be_understood_is_refused(people: Shop) -> None:
    for query in (
        "status=asleep",
        "spent_from=x",
        "spent_from=1e1000000",
        "spent_to=-1e1000000",
        "spent_to=NaN",
        "country=Germany",
        "last_seen_after=soon",
        "trial_ends_within=0",
        "trial_ends_within=0000019999999",
        "sort=shoe",
        "billing_issue=maybe",
        "billing_issue=false",
        "product_active=true",
        "bogus=1",
        "country=DE&country=FR",
        "limit=1&limit=2",
        "segment_id=x&status=trial",
        "product_id=%00",
    ):
        reply = await get(people, f"customer_list?{query}")
        assert reply.status in (400, 422), (query, reply)
        assert reply.json()["object"] == "error"
    refused(await get(people, "customer_list?starting_after=x"), 404, "resource_missing", "starting_after")


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


async def test_an_entitlement_is_granted_to_a_segment_after_a_preview(people: Shop) -> None:
    segment = await post(people, "customer_segments", {"name": "Window", "filter": {"status": "never_bought"}})
    body = {"entitlement_id": "team", "duration": "weekly", "segment_id": segment.json()["id"]}
    made = await post(people, "bulk_grants", body)
    assert made.status == 201, made
    draft = made.json()
    assert (draft["state"], draft["customers"], draft["holders"], draft["complete"]) == ("draft", 1, 0, True)
    assert (await get(people, "customers/visitor/active_entitlements")).json()["items"] == []
    started = await post(people, f"bulk_grants/{draft['id']}/actions/start", None)
    assert (started.status, started.json()["state"], started.json()["waiting"]) == (200, "running", 1)
    assert (await post(people, f"bulk_grants/{draft['id']}/actions/start", None)).status == 409
    assert await run_next(people.changes, people.clock)
    done = (await get(people, f"bulk_grants/{draft['id']}")).json()
    assert (done["state"], done["granted"], done["waiting"], done["failures"]) == ("done", 1, 0, [])
    [held] = (await get(people, "customers/visitor/active_entitlements")).json()["items"]
    assert held["entitlement_id"] == "team"
    assert (await post(people, f"bulk_grants/{draft['id']}/actions/stop", None)).status == 409
    assert [one["id"] for one in (await get(people, "bulk_grants")).json()["items"]] == [draft["id"]]


async def test_who_fails_is_named_unless_they_were_erased_and_ids_are_not_in_the_audit_log(people: Shop) -> None:
    ids = ["tara", "visitor", "nobody at all"]
    made = await post(people, "bulk_grants", {"entitlement_id": "team", "customer_ids": ids})
    draft = made.json()
    assert (draft["customers"], draft["unknown_ids"], draft["duration"]) == (2, ["nobody at all"], None)
    said = await people.database.pool.fetchval(
        "select detail::text from audit_entries where action like 'bulk_grant.%'"
    )
    assert "team" in said
    assert "visitor" not in said
    assert (await delete(people, "customers/visitor")).status == 200
    await post(people, f"bulk_grants/{draft['id']}/actions/start", None)
    assert await run_next(people.changes, people.clock)
    done = (await get(people, f"bulk_grants/{draft['id']}")).json()
    assert (done["granted"], done["failed"], [one["customer_id"] for one in done["failures"]]) == (1, 1, [None])


async def test_a_bulk_grant_for_nobody_names_the_field_that_was_sent(people: Shop) -> None:
    segment = (await post(people, "customer_segments", {"name": "none", "filter": {"country": "ZW"}})).json()["id"]
    for field, sent in (("customer_ids", ["nobody at all"]), ("filter", {"country": "ZW"}), ("segment_id", segment)):
        reply = await post(people, "bulk_grants", {"entitlement_id": "team", field: sent})
        assert (reply.status, reply.json()["param"]) == (422, field)


REFUSED: list[tuple[dict[str, object], int]] = [
    ({"customer_ids": None}, 422),
    ({"filter": {"status": "trial"}}, 422),
    ({"customer_ids": None, "filter": {"stauts": "trial"}}, 422),
    ({"customer_ids": None, "filter": {"status": "?"}}, 422),
    ({"customer_ids": None, "segment_id": "seg_none"}, 404),
    ({"customer_ids": ["nobody at all"]}, 422),
    ({"entitlement_id": "none"}, 404),
    ({"duration": "fortnightly"}, 400),
    ({"expires_at": 10**12}, 422),
    ({"duration": "weekly", "expires_at": 4 * 10**12}, 422),
    ({"customer_ids": []}, 400),
    ({"customer_ids": ["x"] * 10_001}, 400),
]


async def test_a_bulk_grant_that_cannot_be_is_refused(people: Shop) -> None:
    for change, status in REFUSED:
        body = {"entitlement_id": "team", "customer_ids": ["tara"]} | change
        reply = await post(people, "bulk_grants", {name: value for name, value in body.items() if value is not None})
        assert reply.status == status, (change, reply)
    assert (await get(people, "bulk_grants")).json()["items"] == []
