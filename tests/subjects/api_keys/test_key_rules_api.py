"""Secret keys that have expired, or that are used from outside their networks."""

import asyncio
from typing import Any

import pytest
from msgspec import json

from latchkey.subjects.api_keys import usecases as keys
from tests.http.client import DAY, NOW, Client, Reply, Shop
from tests.http.management import delete, get, post, refused, walk
from tests.http.routes import Route, routes_of

V1 = "/v1/subscribers/ada"
V2 = "/v2/projects/proj_demo/customers/ada"
HERE, THERE = "198.51.100.7", "203.0.113.9"
# A hot read of each version, one that the framework answers, and an export.
READS = [V1, V2, f"{V2}/attributes", "/v2/projects/proj_demo/events", "/v2/projects/proj_demo/exports"]


async def bound(shop: Shop, **rules: Any) -> keys.IssuedKey:
    return await keys.create_secret_key(shop.database, shop.project_id, "bound", NOW, **rules)


def at(shop: Shop, address: str) -> Client:
    return Client(shop.client.app, None, shop.client.public, address)


def is_401(reply: Reply) -> bool:
    body = reply.json()
    known = body.get("code") == 7225 or body.get("type") == "authentication_error"
    return reply.status == 401 and known and "expired" in body["message"]


def is_403(reply: Reply) -> bool:
    body = reply.json()
    known = body.get("code") == 7243 or body.get("type") == "authorization_error"
    return reply.status == 403 and known and "does not work from the address" in body["message"]


@pytest.mark.parametrize("path", READS)
async def test_a_key_works_until_it_expires_and_says_so_after(shop: Shop, path: str) -> None:
    await shop.note("ada", plan="x")
    issued = await bound(shop, expires_at=NOW + DAY)
    shop.clock.now = NOW + DAY - 1
    assert (await shop.client.get(path, key=issued.plaintext)).status == 200
    shop.clock.now += 1
    for _ in range(2):
        reply = await shop.client.get(path, key=issued.plaintext)
        assert is_401(reply), reply
        assert reply.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("path", READS)
async def test_a_key_works_only_from_its_networks(shop: Shop, path: str) -> None:
    await shop.note("ada", plan="x")
    issued = await bound(shop, allowed_networks=["198.51.100.0/24", "2001:db8::/32"])
    for address in (HERE, f"::ffff:{HERE}", "2001:db8::7"):
        assert (await at(shop, address).get(path, key=issued.plaintext)).status == 200
    for address in (THERE, f"::ffff:{THERE}", "2001:db9::7", "::1", "not an address"):
        for _ in range(2):
            reply = await at(shop, address).get(path, key=issued.plaintext)
            assert is_403(reply), reply


async def test_a_forwarded_address_counts_only_behind_a_proxy(shop: Shop) -> None:
    issued = await bound(shop, allowed_networks=[HERE])
    forged = {"x-forwarded-for": HERE}
    assert is_403(await at(shop, THERE).get(V1, key=issued.plaintext, headers=forged))
    services: Any = shop.client.app
    services.services.behind_proxy = True
    client = at(shop, "127.0.0.1")
    assert (await client.get(V1, key=issued.plaintext, headers=forged)).status == 201
    # What the client wrote itself comes first; the proxy appends what it saw.
    forged = {"x-forwarded-for": f"{HERE}, {THERE}"}
    assert is_403(await client.get(V1, key=issued.plaintext, headers=forged))


async def ask(client: Client, route: Route, key: str) -> Reply:
    body = json.encode(route.body) if route.takes_body else b""
    return await client.request(route.method, route.path({}) + route.query, key=key, body=body)


async def test_every_route_that_takes_a_secret_key_refuses_them(shop: Shop) -> None:
    expired = await bound(shop, expires_at=NOW + 1, rate_limit=1_000_000)
    elsewhere = await bound(shop, allowed_networks=[HERE], rate_limit=1_000_000)
    shop.clock.now += 1
    checked = 0
    for route in routes_of(shop):
        if (await ask(shop.client, route, "sk_unknown")).status != 401:
            continue
        checked += 1
        assert is_401(await ask(shop.client, route, expired.plaintext)), route.name
        assert is_403(await ask(at(shop, THERE), route, elsewhere.plaintext)), route.name
    assert checked > 100


async def test_what_is_refused_for_its_address_is_not_counted_but_for_the_first(shop: Shop) -> None:
    issued = await bound(shop, allowed_networks=[HERE], rate_limit=3)
    stranger, owner = at(shop, THERE), at(shop, HERE)
    assert is_403(await stranger.get(V1, key=issued.plaintext))
    replies = await asyncio.gather(*(stranger.get(path, key=issued.plaintext) for path in READS * 5))
    assert all(is_403(reply) for reply in replies)
    assert [(await owner.get(V1, key=issued.plaintext)).status for _ in range(3)] == [201, 200, 429]
    # And while the limit is used up, a stranger does not learn that.
    assert is_403(await stranger.get(V1, key=issued.plaintext))


async def test_a_change_of_the_rules_holds_from_the_next_request_on(shop: Shop) -> None:
    issued = await bound(shop, allowed_networks=[HERE])
    client = at(shop, THERE)
    for _ in range(2):
        assert is_403(await client.get(V1, key=issued.plaintext))
    path = f"api_keys/{issued.key.id}"
    assert (await post(shop, path, {"allowed_networks": [HERE, THERE]})).status == 200
    assert (await client.get(V1, key=issued.plaintext)).status == 201
    assert (await post(shop, path, {"allowed_networks": [HERE]})).status == 200
    assert is_403(await client.get(V1, key=issued.plaintext))
    await delete(shop, path)
    reply = await client.get(V1, key=issued.plaintext)
    assert (reply.status, "revoked" in reply.json()["message"]) == (401, True)


async def test_a_public_key_works_everywhere_and_has_no_rules(shop: Shop) -> None:
    assert (await at(shop, THERE).get(V1, key=shop.public)).status == 201
    [public] = await walk(shop, "apps/app_demo/public_api_keys")
    refused(
        await post(shop, f"api_keys/{public['id']}", {"allowed_networks": [HERE]}),
        422,
        "unprocessable_entity_error",
        "key_id",
    )


async def test_a_key_cannot_free_itself_or_make_a_freer_one(shop: Shop) -> None:
    issued = await bound(shop, allowed_networks=["127.0.0.0/8"], expires_at=NOW + DAY)
    mine = {"key": issued.plaintext}
    rules: dict[str, Any] = {"allowed_networks": ["127.0.0.1"], "expires_at": NOW + DAY}
    kind = {"name": "more", "scopes": ["read"]}
    assert (await post(shop, "api_keys", {**kind, **rules}, **mine)).status == 201
    wider = {**rules, "allowed_networks": []}
    refused(await post(shop, "api_keys", {**kind, **wider}, **mine), 403, "authorization_error", "allowed_networks")
    longer = {**rules, "expires_at": None}
    refused(await post(shop, "api_keys", {**kind, **longer}, **mine), 403, "authorization_error", "expires_at")
    path = f"api_keys/{issued.key.id}"
    refused(await post(shop, path, wider, **mine), 403, "authorization_error", "allowed_networks")
    refused(await post(shop, path, {"expires_at": NOW + 2 * DAY}, **mine), 403, "authorization_error", "expires_at")
    shop.clock.now += 1000
    refused(await post(shop, f"{path}/actions/rotate", {}, **mine), 403, "authorization_error", "expires_at")
    free = (await walk(shop, "api_keys"))[0]
    refused(
        await post(shop, f"api_keys/{free['id']}/actions/rotate", {}, **mine), 403, "authorization_error", "expires_at"
    )
    assert (await get(shop, "products", **mine)).status == 200
    beside = (await shop.client.post("/v2/projects", {"name": "Second"}, **mine)).json()["api_key"]
    assert (beside["allowed_networks"], beside["expires_at"]) == (["127.0.0.0/8"], NOW + DAY)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"expires_at": "tomorrow"}, "expires_at"),
    ({"expires_at": 1}, "expires_at"),
    ({"allowed_networks": ["nowhere"]}, "allowed_networks"),
    ({"allowed_networks": "10.0.0.0/8"}, "allowed_networks"),
    ({"allowed_networks": [7]}, "allowed_networks.0"),
    ({"allowed_networks": [f"10.0.0.{one}" for one in range(51)]}, "allowed_networks"),
]


IMPOSSIBLE: list[tuple[dict[str, Any], str]] = [
    ({"expires_at": NOW}, "expires_at"),
    ({"expires_at": NOW - DAY}, "expires_at"),
    ({"allowed_networks": ["10.0.0.1/8"]}, "allowed_networks"),
]


async def test_400_and_422_for_rules_that_are_none(shop: Shop) -> None:
    before = await walk(shop, "api_keys")
    for sent, param in WRONG:
        body = {"name": "k", "scopes": ["read"], **sent}
        refused(await post(shop, "api_keys", body), 400, "parameter_error", param)
        refused(await post(shop, f"api_keys/{before[0]['id']}", sent), 400, "parameter_error", param)
    for sent, param in IMPOSSIBLE:
        body = {"name": "k", "scopes": ["read"], **sent}
        refused(await post(shop, "api_keys", body), 422, "unprocessable_entity_error", param)
    path = f"api_keys/{before[0]['id']}/actions/rotate"
    for days in (-1, 91, "7", None):
        refused(await post(shop, path, {"overlap_days": days}), 400, "parameter_error", "overlap_days")
    assert await walk(shop, "api_keys") == before
