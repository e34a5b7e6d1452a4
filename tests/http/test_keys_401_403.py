"""Every route of the document with every kind of key that must be refused, and keys that are missing or malformed. New
routes are covered automatically."""

import hashlib

import pytest
from msgspec import json

from latchkey.subjects.api_keys import usecases as keys
from latchkey.subjects.projects import usecases as projects
from tests.http.client import NOW, Reply, Shop
from tests.http.doings import count_rows
from tests.http.routes import BODIES, Route, routes_of, settle

# What an app may do with the public key inside it. Everything else needs a secret one.
PUBLIC = {
    "GET /v1/subscribers/{app_user_id}",
    "POST /v1/receipts",
    "POST /v1/subscribers/{app_user_id}/attributes",
    "POST /v1/subscribers/identify",
    "GET /v1/subscribers/{app_user_id}/virtual_currencies",
    "GET /v1/subscribers/{app_user_id}/offerings",
    "GET /rcbilling/v1/subscribers/{app_user_id}/products",
    "GET /v1/product_entitlement_mapping",
    "GET /v1/config/{domain}",
    "POST /v1/config/{domain}",
    "POST /v1/events",
    "POST /v1/diagnostics",
    "POST /v1/offers",
    "GET /rcbilling/v1/branding",
    "POST /v1/subscribers/{app_user_id}/alias",
    "POST /v1/subscribers/{app_user_id}/attribution",
    "POST /v1/subscribers/{app_user_id}/adservices_attribution",
    "POST /v1/subscribers/{app_user_id}/restore/eligibility",
    "POST /v1/subscribers/{app_user_id}/intro_eligibility",
}
# The iOS SDK sends no key here.
OPEN = {"GET /v1/health", "GET /v1/subscribers/{app_user_id}/health_report_availability"}
# What an app may ask for, and what is refused while no payment provider is connected.
CHECKOUT = {
    "POST /rcbilling/v1/checkout/prepare",
    "POST /rcbilling/v1/checkout/start",
    "GET /rcbilling/v1/checkout/{operation_session_id}",
    "PATCH /rcbilling/v1/checkout/{operation_session_id}",
    "POST /rcbilling/v1/checkout/{operation_session_id}/complete",
}
# An app may redeem; the token of the example is none of ours.
REDEEM = "POST /v1/subscribers/redeem_purchase"


def guarded(shop: Shop) -> list[Route]:
    return [route for route in routes_of(shop) if route.name not in OPEN]


async def ask(shop: Shop, route: Route, names: dict[str, str], key: str | None) -> Reply:
    body = json.encode(route.body) if route.takes_body else b""
    return await shop.client.request(route.method, route.path(names) + route.query, body=body, key=key)


def refused(route: Route, reply: Reply, status: int) -> None:
    assert reply.status == status, (route.name, reply)
    body = reply.json()
    if route.version == "v1":
        assert set(body) == {"code", "message"}, route.name
        assert body["code"] in ({7224, 7225} if status == 401 else {7243})
    else:
        assert (body["object"], body["retryable"]) == ("error", False)
        assert body["type"] == ("authentication_error" if status == 401 else "authorization_error")
    assert body["message"]


async def everywhere(shop: Shop, key: str | None, status: int, *, only: str = "") -> int:
    """Every route refuses this key, and nothing is changed. `only`: those of this version that name a project."""
    names = await settle(shop)
    before, asked = await count_rows(shop), 0
    for route in guarded(shop):
        if route.version.startswith(only) and (not only or "{project_id}" in route.template):
            refused(route, await ask(shop, route, names, key), status)
            asked += 1
    assert await count_rows(shop) == before
    return asked


async def test_every_route_is_known_here(shop: Shop) -> None:
    routes = guarded(shop)
    assert len(routes) >= 60
    assert {route.name for route in routes if route.takes_body} == set(BODIES)
    assert {route.name for route in routes} >= PUBLIC | CHECKOUT


async def test_no_key_is_401_on_every_route(shop: Shop) -> None:
    assert await everywhere(shop, None, 401)


async def test_no_key_is_401_on_every_write_whatever_its_body_says(shop: Shop) -> None:
    names = await settle(shop)
    for route in guarded(shop):
        if route.writes:
            for headers in ({}, {"latchkey-dry-run": "true"}):
                path = route.path(names) + route.query
                reply = await shop.client.request(route.method, path, body=b'{"zzz":1}', key=None, headers=headers)
                refused(route, reply, 401)


async def test_an_unknown_key_is_401_on_every_route(shop: Shop) -> None:
    assert await everywhere(shop, "sk_" + "a" * 32, 401)


async def test_a_revoked_key_is_401_on_every_route(shop: Shop) -> None:
    issued = await keys.create_secret_key(shop.database, shop.project_id, "mine", NOW)
    await keys.revoke_key(shop.database, shop.project_id, issued.key.id, NOW)
    assert await everywhere(shop, issued.plaintext, 401)


async def test_the_hash_of_a_key_is_not_a_key(shop: Shop) -> None:
    assert await everywhere(shop, hashlib.sha256(shop.secret.encode()).hexdigest(), 401)


async def test_a_key_of_another_project_is_403_on_every_route_of_v2(shop: Shop) -> None:
    other = await projects.create_project(shop.database, "Other", NOW)
    issued = await keys.create_secret_key(shop.database, other.id, "theirs", NOW)
    assert await everywhere(shop, issued.plaintext, 403, only="v2")


async def test_a_key_of_another_project_finds_nobody_on_v1(shop: Shop) -> None:
    names = await settle(shop)
    other = await projects.create_project(shop.database, "Other", NOW)
    issued = await keys.create_secret_key(shop.database, other.id, "theirs", NOW)
    shown = (await shop.v1("ada")).json()
    for route in guarded(shop):
        if route.version == "v1" and "app_user_id" in route.template:
            await ask(shop, route, names, issued.plaintext)
    assert (await shop.v1("ada")).json() == shown


async def test_a_public_key_is_403_everywhere_but_where_apps_go(shop: Shop) -> None:
    names = await settle(shop)
    for route in guarded(shop):
        reply = await ask(shop, route, names, shop.public)
        if route.name in PUBLIC:
            assert reply.status in {200, 201, 204}, (route.name, reply)
        elif route.name in CHECKOUT:
            assert (reply.status, reply.json()["code"]) == (422, 7000), (route.name, reply)
        elif route.name == REDEEM:
            assert (reply.status, reply.json()["code"]) == (400, 7849), (route.name, reply)
        else:
            refused(route, reply, 403)


async def test_a_key_that_only_reads_is_403_on_every_write(shop: Shop) -> None:
    names = await settle(shop)
    issued = await keys.create_secret_key(shop.database, shop.project_id, "reader", NOW, scopes=["read"])
    before = await count_rows(shop)
    for route in guarded(shop):
        reply = await ask(shop, route, names, issued.plaintext)
        if route.writes:
            refused(route, reply, 403)
        else:
            # A secret key belongs to no app, so it has no checkout.
            of_app = route.name in CHECKOUT or route.name == "GET /rcbilling/v1/branding"
            assert reply.status in ({422} if of_app else {200, 204, 404}), (route.name, reply)
    assert await count_rows(shop) == before


async def test_a_key_that_only_writes_is_403_on_every_read(shop: Shop) -> None:
    names = await settle(shop)
    issued = await keys.create_secret_key(shop.database, shop.project_id, "writer", NOW, scopes=["write"])
    for route in guarded(shop):
        if not route.writes:
            refused(route, await ask(shop, route, names, issued.plaintext), 403)


V1 = "/v1/subscribers/ada"
V2 = "/v2/projects/proj_demo/customers/ada"


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (None, 7224),
        ("", 7224),
        ("Bearer", 7224),
        ("Bearer ", 7224),
        ("Basic abc", 7224),
        ("sk_abc", 7224),
        ("Bearer two words", 7224),
        ("Bearer " + "x" * 300, 7224),
        ("Bearer sk_unknown", 7225),
        ("bearer \xff\xfe", 7225),
    ],
)
@pytest.mark.parametrize("path", [V1, V2, f"{V2}/attributes"])
async def test_no_key_or_none_that_is_known_is_401(steady_shop: Shop, path: str, header: str | None, code: int) -> None:
    headers = {"authorization": header} if header is not None else {}
    reply = await steady_shop.client.get(path, key=None, headers=headers)
    assert reply.status == 401
    assert reply.headers["www-authenticate"] == "Bearer"
    if path == V1:
        assert set(reply.json()) == {"code", "message"}
        assert reply.json()["code"] == code
    else:
        assert reply.json()["type"] == "authentication_error"
        assert reply.json()["object"] == "error"


async def test_a_bare_key_is_401_on_v1_as_on_v2(shop: Shop) -> None:
    await shop.note("ada", plan="x")
    for path in (V1, f"{V1}/offerings", V2, f"{V2}/attributes"):
        assert (await shop.client.get(path, key=None, headers={"authorization": shop.secret})).status == 401


async def test_the_scheme_may_be_written_in_any_case(shop: Shop) -> None:
    reply = await shop.client.get(V1, key=None, headers={"authorization": f"bEARER {shop.secret}"})
    assert reply.status == 201


async def test_a_project_that_does_not_exist_is_told_apart_from_nothing(shop: Shop) -> None:
    assert (await shop.client.get("/v2/projects/proj_none/customers/ada")).status == 403
