"""Customers of V2: created, listed, searched, given attributes and aliases, and transfers between them."""

from typing import Any
from urllib.parse import quote

import pytest

from latchkey.domain.customers.customer import newcomer
from latchkey.engine.storage import records as customers
from tests.http.client import NOW, Reply, Shop
from tests.http.doings import (
    ANONYMOUS,
    app_key,
    count_rows,
    did,
    make_clock,
    move_in,
    show_receipt,
    subscriber,
    told,
    types_told,
)
from tests.http.management import get, holds, post, refused, walk


async def test_a_new_customer_is_201_and_reads_as_it_was_answered(steady_shop: Shop) -> None:
    reply = await post(steady_shop, "customers", {"id": "new one@ü"})
    assert reply.status == 201
    assert reply.json()["id"] == "new one@ü"
    assert reply.json()["active_entitlements"]["items"] == []
    assert reply.json() == (await steady_shop.v2("new%20one%40%C3%BC")).json()


async def test_an_id_or_alias_that_is_taken_is_409(steady_shop: Shop) -> None:
    await steady_shop.client.post("/v1/subscribers/identify", {"app_user_id": ANONYMOUS, "new_app_user_id": "taken"})
    before = await count_rows(steady_shop)
    for id in ("taken", ANONYMOUS):
        refused(await post(steady_shop, "customers", {"id": id}), 409, "resource_already_exists", "id")
    assert await count_rows(steady_shop) == before


async def test_a_customer_on_a_clock_that_does_not_exist_is_404(steady_shop: Shop) -> None:
    before = await count_rows(steady_shop)
    reply = await post(steady_shop, "customers", {"id": "x", "test_clock_id": "clk_none"})
    refused(reply, 404, "resource_missing", "test_clock_id")
    assert await count_rows(steady_shop) == before


async def test_aliases_are_paged_by_id_and_found_by_any_of_them(steady_shop: Shop) -> None:
    await steady_shop.client.post(
        "/v1/subscribers/identify", {"app_user_id": ANONYMOUS[:-1] + "0", "new_app_user_id": "many"}
    )
    first = (await get(steady_shop, "customers/many/aliases?limit=1")).json()
    assert [item["id"] for item in first["items"]] == [ANONYMOUS[:-1] + "0"]
    assert [item["id"] for item in await walk(steady_shop, "customers/many/aliases?limit=1")] == [
        ANONYMOUS[:-1] + "0",
        "many",
    ]
    refused(await get(steady_shop, "customers/nobody/aliases"), 404, "resource_missing", "customer_id")


async def transfer(shop: Shop, source: str, target: str) -> Reply:
    return await post(shop, f"customers/{quote(source)}/actions/transfer", {"target_customer_id": target})


async def test_a_transfer_gives_everything_and_answers_with_both(shop: Shop) -> None:
    await did(shop, "purchase", "ada", "team_monthly")
    await did(shop, "purchase", "ada", "pro_lifetime")
    await post(shop, "customers/ada/actions/grant_entitlement", {"entitlement_id": "team"})
    await shop.note("bob", plan="x")
    reply = await transfer(shop, "ada", "bob")
    assert reply.status == 200
    assert reply.json() == {
        "source_customer": (await shop.v2("ada")).json(),
        "target_customer": (await shop.v2("bob")).json(),
    }
    assert await holds(shop, "ada") == set()
    assert await holds(shop, "bob") == {"pro", "team"}
    assert (await subscriber(shop, "ada"))["entitlements"] == {}
    [event] = await told(shop, "bob")
    assert (event["type"], event["app_user_id"]) == ("TRANSFER", "bob")
    assert (event["transferred_from"], event["transferred_to"]) == (["ada"], ["bob"])
    assert set(event["entitlements"]) == {"pro", "team"}
    assert event["subscriber_attributes"] == {"plan": {"value": "x", "updated_at_ms": NOW}}
    # There is no EXPIRATION for the source: the purchases did not end.
    assert await types_told(shop, "ada") == ["INITIAL_PURCHASE", "NON_RENEWING_PURCHASE", "NON_RENEWING_PURCHASE"]


async def test_the_first_of_transferred_from_is_the_id_the_source_goes_by(shop: Shop) -> None:
    await show_receipt(shop, ANONYMOUS)
    await shop.client.post("/v1/subscribers/identify", {"app_user_id": ANONYMOUS, "new_app_user_id": "ada"})
    await shop.note("bob", plan="x")
    await transfer(shop, ANONYMOUS, "bob")
    [event] = await told(shop, "bob")
    assert event["transferred_from"] == ["ada", ANONYMOUS]


async def test_transfers_that_make_no_sense_change_nothing(shop: Shop) -> None:
    await did(shop, "purchase", "ada", "pro_monthly")
    await shop.note("poor", plan="x")
    await shop.client.post("/v1/subscribers/identify", {"app_user_id": ANONYMOUS, "new_app_user_id": "poor"})
    await move_in(shop, "clocked", await make_clock(shop))
    before = await count_rows(shop)
    refused(await transfer(shop, "nobody", "ada"), 404, "resource_missing", "customer_id")
    refused(await transfer(shop, "ada", "nobody"), 404, "resource_missing", "target_customer_id")
    refused(await transfer(shop, "ada", "ada"), 422, "unprocessable_entity_error", "target_customer_id")
    refused(await transfer(shop, "poor", ANONYMOUS), 422, "unprocessable_entity_error", "target_customer_id")
    refused(await transfer(shop, "poor", "ada"), 422, "unprocessable_entity_error", None)
    refused(await transfer(shop, "ada", "clocked"), 422, "unprocessable_entity_error", None)
    refused(await transfer(shop, "ada", "null"), 400, "parameter_error", "target_customer_id")
    assert await count_rows(shop) == before
    assert await holds(shop, "ada") == {"pro"}


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


async def test_an_id_of_any_signs_is_a_cursor_that_leads_on(shop: Shop) -> None:
    ids = ["$RCAnonymousID:0123456789abcdef0123456789abcdef", "a b", "a%2Fb", "a&limit=1", "a+b", "ünïcödé 🎟"]
    for id in ids:
        await shop.note(id, plan="x")
    listed = [item["id"] for item in await walk(shop, "customers?limit=1")]
    assert sorted(listed) == sorted(ids)


async def test_a_thousand_customers_are_walked_each_once(shop: Shop) -> None:
    ids = [f"user {n:04}" for n in range(1000)]
    async with shop.database.transaction() as connection:
        await customers.create(connection, [newcomer(shop.project_id, id, NOW) for id in ids])
    assert [item["id"] for item in await walk(shop, "customers?limit=100")] == ids
