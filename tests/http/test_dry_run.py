"""Latchkey-Dry-Run and Latchkey-Confirm: what a request would do, and exactly this request afterwards."""

from typing import Any

import pytest
from msgspec import json

from latchkey.database.distribution.statements import TABLES
from latchkey.http.audited import CONFIRMED_WITHIN_MS
from latchkey.subjects.api_keys import usecases as keys
from latchkey.subjects.audit import usecases as audit
from tests.http.client import DAY, NOW, Reply, Shop
from tests.http.doings import ABOUT_REQUESTS, LATER, unhurried
from tests.http.management import get, holds, post, refused
from tests.http.routes import routes_of, settle

GRANT = "customers/ada/actions/grant_entitlement"
PRO = {"entitlement_id": "pro", "expires_at": NOW + DAY}
DRY_RUN = {"latchkey-dry-run": "true"}


async def dry_run(shop: Shop, path: str = GRANT, body: Any = PRO, **options: Any) -> dict[str, Any]:
    reply = await post(shop, path, body, headers=DRY_RUN, **options)
    assert reply.status == 200, reply
    shown: dict[str, Any] = reply.json()
    return shown


async def confirmed(shop: Shop, token: str, path: str = GRANT, body: Any = PRO, **options: Any) -> Reply:
    return await post(shop, path, body, headers={"latchkey-confirm": token}, **options)


async def content(shop: Shop) -> dict[str, str | None]:
    """A hash of every table, besides the counts and logs of requests."""
    names = [name for name in TABLES if name not in ABOUT_REQUESTS and name not in LATER]
    statement = "select md5(string_agg(row::text, ',' order by row::text)) from \"{}\" row"
    return {name: await shop.database.pool.fetchval(statement.format(name)) for name in names}


async def test_a_dry_run_says_what_would_happen_and_changes_nothing(shop: Shop) -> None:
    await shop.note("ada", plan="x")
    before = await content(shop)
    shown = await dry_run(shop)
    assert shown.pop("confirm")
    assert shown == {
        "object": "dry_run",
        "action": "customer.granted",
        "request": f"POST /v2/projects/proj_demo/{GRANT}",
        "sent": PRO,
        "expires_at": NOW + CONFIRMED_WITHIN_MS,
        "checked": "Key, scope and body; not whether what the request names exists. If not, it will be 404.",
    }
    assert await content(shop) == before
    assert await audit.entries(shop.database, shop.project_id, limit=10) == []


async def test_no_route_that_is_audited_changes_anything_in_a_dry_run(shop: Shop) -> None:
    names = await settle(shop)
    await unhurried(shop)
    before = await content(shop)
    tried = 0
    for route in routes_of(shop):
        if "x-latchkey-action" in route.operation:
            path = route.path(names) + route.query
            reply = await shop.client.request(route.method, path, headers=DRY_RUN, body=_encoded(route.body))
            assert (reply.status, reply.json()["object"]) == (200, "dry_run"), (route.name, reply)
            tried += 1
    assert tried > 60
    assert await content(shop) == before


def _encoded(body: Any) -> bytes:
    return b"" if body is None else json.encode(body)


async def test_what_is_wrong_with_key_scope_or_body_is_said_in_a_dry_run(shop: Shop) -> None:
    reader = await keys.create_secret_key(shop.database, shop.project_id, "reader", NOW, scopes=["read"])
    reply = await post(shop, GRANT, PRO, headers=DRY_RUN, key=reader.plaintext)
    refused(reply, 403, "authorization_error", None)
    refused(await post(shop, GRANT, {"entitlement_id": 7}, headers=DRY_RUN), 400, "parameter_error", "entitlement_id")
    reply = await post(shop, GRANT, PRO, headers={"latchkey-dry-run": "yes"})
    refused(reply, 400, "parameter_error", "Latchkey-Dry-Run")


async def test_a_secret_is_not_repeated(shop: Shop) -> None:
    body = {"name": "mine", "url": "https://example.com/hook", "authorization_header": "Bearer very s3cret"}
    assert "s3cret" not in str(await dry_run(shop, "integrations/webhooks", body))


async def test_a_confirmed_request_is_carried_out_once(shop: Shop) -> None:
    await shop.note("ada", plan="x")
    token = (await dry_run(shop))["confirm"]
    assert await holds(shop, "ada") == set()
    first, second = [await confirmed(shop, token) for _ in range(2)]
    assert (first.status, first.body) == (second.status, second.body)
    assert first.status == 201
    assert await holds(shop, "ada") == {"pro"}
    assert len(await audit.entries(shop.database, shop.project_id, limit=10)) == 1


async def test_a_confirmed_request_of_v1_is_carried_out_once(shop: Shop) -> None:
    await shop.note("ada", plan="x")
    path, grant = "/v1/subscribers/ada/entitlements/pro/promotional", {"duration": "daily"}
    token = (await shop.client.post(path, grant, headers=DRY_RUN)).json()["confirm"]
    # V1 takes no notice of an Idempotency-Key.
    given = [{"latchkey-confirm": token, "idempotency-key": key} for key in ("k1", "k2")]
    first, second = [await shop.client.post(path, grant, headers=headers) for headers in given]
    assert (first.status, first.body) == (second.status, second.body)
    assert first.status == 201
    assert len(await audit.entries(shop.database, shop.project_id, limit=10)) == 1


async def test_what_has_no_dry_run_is_not_done_in_one(shop: Shop) -> None:
    names = await settle(shop)
    await unhurried(shop)
    before = await content(shop)
    tried = 0
    for route in routes_of(shop):
        if "x-latchkey-action" not in route.operation:
            path = route.path(names) + route.query
            reply = await shop.client.request(route.method, path, headers=DRY_RUN, body=_encoded(route.body))
            assert reply.status == 400, (route.name, reply)
            tried += 1
    assert tried > 100
    assert await content(shop) == before


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_read_that_would_create_the_customer_is_refused_in_a_dry_run(shop: Shop, method: str) -> None:
    for value in ("true", "yes"):
        reply = await shop.client.request(method, "/v1/subscribers/new", headers={"latchkey-dry-run": value})
        assert reply.status == 400
    assert (await get(shop, "customers/new")).status == 404
    assert (await shop.v1("new")).status == 201


@pytest.mark.parametrize("token", ["", "x", "AAAA", "é", "A" * 5000])
async def test_a_token_that_is_none_is_refused(shop: Shop, token: str) -> None:
    refused(await confirmed(shop, token), 400, "parameter_error", "Latchkey-Confirm")


async def test_a_token_is_for_one_request_of_one_key(shop: Shop) -> None:
    await shop.note("ada", plan="x")
    await shop.note("eve", plan="x")
    token = (await dry_run(shop))["confirm"]
    other = await keys.create_secret_key(shop.database, shop.project_id, "other", NOW)
    wrong = (
        await confirmed(shop, token, body=PRO | {"expires_at": NOW + 2 * DAY}),
        await confirmed(shop, token, "customers/eve/actions/grant_entitlement"),
        await confirmed(shop, token, f"{GRANT}?x=1"),
        await confirmed(shop, token, key=other.plaintext),
    )
    for reply in wrong:
        refused(reply, 400, "parameter_error", "Latchkey-Confirm")
    assert await holds(shop, "ada") == await holds(shop, "eve") == set()


async def test_a_token_works_for_ten_minutes(shop: Shop) -> None:
    await shop.note("ada", plan="x")
    longer = PRO | {"expires_at": NOW + 2 * DAY}
    token, later = (await dry_run(shop))["confirm"], (await dry_run(shop, body=longer))["confirm"]
    shop.clock.now += CONFIRMED_WITHIN_MS
    assert (await confirmed(shop, token)).status == 201
    shop.clock.now += 1
    refused(await confirmed(shop, later, body=longer), 400, "parameter_error", "Latchkey-Confirm")


async def test_the_reply_of_a_dry_run_is_not_kept_under_an_idempotency_key(shop: Shop) -> None:
    await shop.note("ada", plan="x")
    once = {"idempotency-key": "k1"}
    assert (await post(shop, GRANT, PRO, headers={**DRY_RUN, **once})).status == 200
    assert (await post(shop, GRANT, PRO, headers=once)).status == 201
    assert (await get(shop, "customers/ada")).json()["active_entitlements"]["items"]
