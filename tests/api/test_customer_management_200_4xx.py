"""Managing customers as the vendor's clients do: search, attributes, aliases with their times, transfers by app."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import NOW, Shop
from tests.api.doings import ANONYMOUS, app_key, count_rows, show_receipt
from tests.api.management import get, holds, post, refused, walk

MINUTE = 60_000


async def attributes_of(shop: Shop, id: str) -> dict[str, str]:
    return {one["name"]: one["value"] for one in await walk(shop, f"customers/{id}/attributes")}


async def test_search_finds_a_whole_address_in_any_case_and_nobody_else(shop: Shop) -> None:
    for id, address in (("s1", "sue@example.com"), ("s2", "SUE@example.com"), ("s3", "sue@example.community")):
        body = {"id": id, "attributes": [{"name": "$email", "value": address}]}
        assert (await post(shop, "customers", body)).status == 201
    assert [one["id"] for one in await walk(shop, "customers?search=Sue%40example.com")] == ["s1", "s2"]
    first = (await get(shop, "customers?search=sue%40example.com&limit=1")).json()
    assert first["next_page"] == ("/v2/projects/proj_demo/customers?search=sue%40example.com&limit=1&starting_after=s1")
    assert [one["id"] for one in await walk(shop, "customers?search=sue%40example.com&limit=1")] == ["s1", "s2"]
    assert (await get(shop, "customers?search=s1")).json()["items"] == []
    refused(await get(shop, "customers?search="), 400, "parameter_error", "search")
    refused(await get(shop, "customers?search=%00"), 400, "parameter_error", "search")


async def test_a_limit_above_the_largest_page_is_the_largest_page(shop: Shop) -> None:
    reply = await get(shop, "customers?limit=1000000")
    assert (reply.status, reply.json()["next_page"]) == (200, None)
    for wrong in ("0", "-1", "many"):
        refused(await get(shop, f"customers?limit={wrong}"), 400, "parameter_error", "limit")


async def test_a_new_customer_has_the_attributes_it_was_created_with(shop: Shop) -> None:
    sent = [{"name": "$email", "value": "n@example.com"}, {"name": "plan", "value": "x"}, {"name": "no", "value": None}]
    reply = await post(shop, "customers", {"id": "noted", "attributes": sent})
    assert reply.status == 201
    assert reply.json() == (await shop.v2("noted")).json()
    assert await attributes_of(shop, "noted") == {"$email": "n@example.com", "plan": "x"}


@pytest.mark.parametrize(
    "attributes",
    [
        [{"name": "$email", "value": "nobody"}],
        [{"name": "a/b", "value": "x"}],
        [{"name": "a", "value": "x"}, {"name": "a", "value": "y"}],
        [{"name": "a" * 41, "value": "x"}],
        [{"name": "a", "value": "x" * 501}],
        [{"name": "a"}],
        [{"name": f"a{n}", "value": "x"} for n in range(51)],
    ],
)
async def test_attributes_that_cannot_be_kept_change_nothing(steady_shop: Shop, attributes: list[Any]) -> None:
    await steady_shop.note("held", plan="x")
    before = await count_rows(steady_shop)
    made = await post(steady_shop, "customers", {"id": "never", "attributes": attributes})
    told = await post(steady_shop, "customers/held/attributes", {"attributes": attributes})
    for reply in (made, told):
        assert (reply.status, reply.json()["type"]) == (400, "parameter_error")
        assert reply.json()["param"].startswith("attributes")
    assert await count_rows(steady_shop) == before
    assert await attributes_of(steady_shop, "held") == {"plan": "x"}


async def test_a_server_sets_and_deletes_attributes_at_once(shop: Shop) -> None:
    await shop.note("ada", plan="old", gone="x")
    changes = [{"name": "plan", "value": "new"}, {"name": "gone", "value": None}, {"name": "never", "value": None}]
    reply = await post(shop, "customers/ada/attributes", {"attributes": changes})
    assert reply.status == 200
    assert reply.json()["url"] == "/v2/projects/proj_demo/customers/ada/attributes"
    assert [(one["name"], one["value"]) for one in reply.json()["items"]] == [("plan", "new")]
    assert reply.json() == (await get(shop, "customers/ada/attributes")).json()
    # The clock of the test stands still: the second change of the same moment counts too.
    await post(shop, "customers/ada/attributes", {"attributes": [{"name": "plan", "value": "newest"}]})
    assert await attributes_of(shop, "ada") == {"plan": "newest"}


async def test_a_server_wins_over_a_phone_whose_clock_is_ahead(shop: Shop) -> None:
    ahead = {"attributes": {"plan": {"value": "phone", "updated_at_ms": NOW + MINUTE}}}
    await shop.client.post("/v1/subscribers/phil/attributes", ahead)
    await post(shop, "customers/phil/attributes", {"attributes": [{"name": "plan", "value": "server"}]})
    assert await attributes_of(shop, "phil") == {"plan": "server"}


async def test_attributes_need_a_customer_and_at_least_one_attribute(steady_shop: Shop) -> None:
    body = {"attributes": [{"name": "plan", "value": "x"}]}
    assert (await post(steady_shop, "customers/nobody-here/attributes", body)).status == 404
    refused(
        await post(steady_shop, "customers/held/attributes", {"attributes": []}), 400, "parameter_error", "attributes"
    )
    refused(await post(steady_shop, "customers/held/attributes", {}), 400, "parameter_error", "attributes")


async def test_an_alias_knows_when_it_came(shop: Shop) -> None:
    await shop.client.get(f"/v1/subscribers/{ANONYMOUS.replace('$', '%24')}", key=shop.public)
    shop.clock.now += 5 * MINUTE
    await shop.client.post("/v1/subscribers/identify", {"app_user_id": ANONYMOUS, "new_app_user_id": "ada"})
    assert await walk(shop, "customers/ada/aliases") == [
        {"object": "customer.alias", "id": ANONYMOUS, "created_at": NOW},
        {"object": "customer.alias", "id": "ada", "created_at": NOW + 5 * MINUTE},
    ]


async def test_a_merged_customers_ids_keep_their_times(shop: Shop) -> None:
    await shop.note("ada", plan="x")
    shop.clock.now += MINUTE
    await shop.client.get(f"/v1/subscribers/{ANONYMOUS.replace('$', '%24')}", key=shop.public)
    shop.clock.now += MINUTE
    await shop.client.post("/v1/subscribers/identify", {"app_user_id": ANONYMOUS, "new_app_user_id": "ada"})
    times = {one["id"]: one["created_at"] for one in await walk(shop, "customers/ada/aliases")}
    assert times == {"ada": NOW, ANONYMOUS: NOW + MINUTE}


async def test_only_the_purchases_of_these_apps_are_transferred(shop: Shop) -> None:
    other = await app_key(shop, "test_store")
    apps = {one["id"] for one in await walk(shop, "apps")}
    await show_receipt(shop, "ada", "test_1_a", "pro_lifetime")
    await show_receipt(shop, "ada", "test_1_b", "team_monthly", key=other)
    bought = await holds(shop, "ada")
    assert bought == {"pro", "team"}
    await shop.note("bob", plan="x")
    reply = await post(
        shop, "customers/ada/actions/transfer", {"target_customer_id": "bob", "app_ids": ["app_of_nobody"]}
    )
    refused(reply, 422, "unprocessable_entity_error", None)
    [second] = apps - {"app_demo"}
    reply = await post(shop, "customers/ada/actions/transfer", {"target_customer_id": "bob", "app_ids": [second]})
    assert reply.status == 200
    assert (await holds(shop, "bob"), await holds(shop, "ada")) == ({"pro", "team"}, {"pro"})
    await post(shop, "customers/ada/actions/transfer", {"target_customer_id": "bob", "app_ids": None})
    assert (await holds(shop, "bob"), await holds(shop, "ada")) == (bought, set())


@pytest.mark.parametrize("name", ["app_user_id", "customer_id"])
async def test_our_own_bodies_name_the_customer_either_way(steady_shop: Shop, name: str) -> None:
    action = {"action": "purchase", name: f"by-{name}", "product_id": "coins_100"}
    assert (await post(steady_shop, "test_store/actions", action)).status == 200
    variants = [{"id": "a", "weight": 1}, {"id": "b", "weight": 1}]
    made = (await post(steady_shop, "experiments", {"name": "Names", "variants": variants})).json()
    assert (await post(steady_shop, f"experiments/{made['id']}/enroll", {name: f"by-{name}"})).status == 200


async def test_a_body_with_both_names_or_a_wrong_one_is_refused(steady_shop: Shop) -> None:
    action = {"action": "purchase", "product_id": "coins_100"}
    both = await post(steady_shop, "test_store/actions", {**action, "app_user_id": "one", "customer_id": "two"})
    refused(both, 400, "parameter_error", "customer_id")
    refused(await post(steady_shop, "test_store/actions", action), 400, "parameter_error", "app_user_id")
    wrong = await post(steady_shop, "test_store/actions", {**action, "customer_id": "undefined"})
    refused(wrong, 400, "parameter_error", "customer_id")
