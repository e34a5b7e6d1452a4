"""POST /v2/…/customers, its aliases, and transfers between customers."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.api.client import DAY, NOW, Reply, Shop
from tests.api.doings import (
    ANONYMOUS,
    advance,
    count_rows,
    did,
    make_clock,
    move_in,
    show_receipt,
    subscriber,
    told,
    types_told,
)
from tests.api.management import get, holds, post, refused, walk


async def test_a_new_customer_is_201_and_reads_as_it_was_answered(steady_shop: Shop) -> None:
    reply = await post(steady_shop, "customers", {"id": "new one@ü"})
    assert reply.status == 201
    assert reply.json()["id"] == "new one@ü"
    assert reply.json()["active_entitlements"]["items"] == []
    assert reply.json() == (await steady_shop.v2("new%20one%40%C3%BC")).json()


async def test_a_customer_on_a_clock_was_first_seen_at_its_time(steady_shop: Shop) -> None:
    clock = await make_clock(steady_shop, NOW - 800 * DAY)
    reply = await post(steady_shop, "customers", {"id": "clocked", "test_clock_id": clock})
    assert (reply.status, reply.json()["first_seen_at"]) == (201, NOW - 800 * DAY)


async def test_an_id_or_alias_that_is_taken_is_409(steady_shop: Shop) -> None:
    await steady_shop.client.post("/v1/subscribers/identify", {"app_user_id": ANONYMOUS, "new_app_user_id": "taken"})
    before = await count_rows(steady_shop)
    for id in ("taken", ANONYMOUS):
        refused(await post(steady_shop, "customers", {"id": id}), 409, "resource_already_exists", "id")
    assert await count_rows(steady_shop) == before


@pytest.mark.parametrize(
    ("body", "status", "kind", "param"),
    [
        ({"id": "x", "test_clock_id": "clk_none"}, 404, "resource_missing", "test_clock_id"),
        ({"id": "x", "test_clock_id": ""}, 400, "parameter_error", "test_clock_id"),
        ({"id": "undefined"}, 400, "parameter_error", "id"),
        ({"id": ""}, 400, "parameter_error", "id"),
        ({}, 400, "parameter_error", "id"),
        ({"id": "x", "attributes": {}}, 400, "parameter_error", "attributes"),
    ],
)
async def test_a_customer_that_cannot_be_is_refused(
    steady_shop: Shop, body: dict[str, Any], status: int, kind: str, param: str
) -> None:
    before = await count_rows(steady_shop)
    refused(await post(steady_shop, "customers", body), status, kind, param)
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


async def test_what_was_transferred_lives_on_with_the_receiver_and_can_go_back(shop: Shop) -> None:
    clock = await make_clock(shop)
    await move_in(shop, "ada", clock)
    await move_in(shop, "bob", clock)
    await did(shop, "purchase", "ada", "pro_monthly")
    await transfer(shop, "ada", "bob")
    await advance(shop, clock, by="P1M")
    assert await types_told(shop, "bob") == ["TRANSFER", "RENEWAL"]
    assert (await transfer(shop, "bob", "ada")).status == 200
    assert await types_told(shop, "ada") == ["INITIAL_PURCHASE", "TRANSFER"]
    assert [event["sequence"] for event in await told(shop, "ada")] == [1, 2]
    assert await holds(shop, "ada") == {"pro"}


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
