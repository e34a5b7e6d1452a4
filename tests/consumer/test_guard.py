"""The route guard in every framework, and who counts as signed in."""

import asyncio
import base64
import hashlib
import hmac
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from fastapi import FastAPI
from msgspec import json
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

from latchkey.consumer.api.access_guard import JwtUsers
from tests.consumer.hosts import HOSTS, django_host, flask_host
from tests.consumer.world import JWT_SECRET, NOW, World, event, settings, token, world
from tests.http.client import Client as Asking
from tests.http.client import running

DENIED = {"error": "Access denied", "required_entitlement": "pro"}


@pytest.mark.parametrize("host", HOSTS)
async def test_a_guarded_route_lets_in_only_those_who_hold_the_entitlement(sqlite_url: str, host: str) -> None:
    async with world(sqlite_url, host) as here:
        nobody = await here.get("/reports", None)
        assert (nobody.status, nobody.json()) == (401, {"error": "Not authenticated"})
        assert nobody.headers["content-type"] == "application/json"
        bob = await here.get("/reports", "bob")
        assert (bob.status, bob.json()) == (403, DENIED)
        await here.deliver(event())
        ada = await here.get("/reports")
        assert (ada.status, ada.json()) == (200, "for ada")
        await here.deliver(event("EXPIRATION", entitlements={}))
        assert (await here.get("/reports")).json() == DENIED


@pytest.mark.parametrize("host", HOSTS)
async def test_a_guarded_route_refuses_nobody_in_the_instant_of_a_renewal(sqlite_url: str, host: str) -> None:
    async with world(sqlite_url, host) as here:
        here.service.holds["ada"] = {"pro": NOW + 10}

        async def a_moment_passes() -> None:
            here.clock.now = NOW + 30

        here.service.meanwhile = a_moment_passes
        assert (await here.get("/reports")).json() == "for ada"
        # This question comes after the end, and V2 still shows no renewal.
        assert (await here.get("/reports")).json() == DENIED


async def test_whoever_joins_a_request_to_v2_gets_the_answer_to_that_request(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    billing, joined, second = here.consumer._billing, asyncio.Event(), list[asyncio.Task[bool]]()
    once = billing._once

    async def joining(*words: Any) -> Any:
        if second:
            joined.set()
        return await once(*words)

    async def another_asks() -> None:
        here.clock.now = NOW + 30
        second.append(asyncio.create_task(here.consumer.has_entitlement("ada", "pro")))
        await joined.wait()

    monkeypatch.setattr(billing, "_once", joining)
    here.service.holds["ada"], here.service.meanwhile = {"pro": NOW + 10}, another_asks
    assert await here.consumer.has_entitlement("ada", "pro")
    assert await second[0]
    assert len(here.service.asked) == 1


async def test_mounted_and_installed_endpoints_answer_as_they_do_alone(here: World) -> None:
    consumer = here.consumer
    mounted = Asking(Starlette(routes=[Mount("/billing", consumer.app)]))
    for asking in (mounted, flask_host(consumer, "/billing"), django_host(consumer, "/billing")):
        assert (await asking.get("/billing/api/my-entitlements", key=None)).json() == {"error": "Unauthorized"}
        wrong = await asking.post("/billing/api/my-entitlements", key=None)
        assert (wrong.status, wrong.json()) == (405, {"error": "Method not allowed"})
        assert (await asking.get("/api/my-entitlements", key=None)).status == 404


async def test_five_lines_make_an_app(sqlite_url: str) -> None:
    async with world(sqlite_url) as here:
        consumer = here.consumer
        app = FastAPI(lifespan=consumer.lifespan)
        consumer.install(app)
        async with running(app):
            assert (await Asking(app).get("/healthz", key=None)).status == 200


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_the_app_says_who_is_signed_in(sqlite_url: str, kind: str) -> None:
    def by_cookie(request: Request) -> str | None:
        return request.cookies.get("session")

    async def by_cookie_later(request: Request) -> str | None:
        return by_cookie(request)

    async with world(sqlite_url, identify=by_cookie if kind == "sync" else by_cookie_later) as here:
        await here.deliver(event())
        assert (await here.get("/api/my-entitlements")).status == 401
        reply = await here.asking.get("/api/my-entitlements", key=None, headers={"cookie": "session=ada"})
        assert reply.json()["entitlements"] == ["pro"]


def _pem(private: Any) -> tuple[str, str]:
    hidden = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    shown = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return hidden.decode(), shown.decode()


RSA = _pem(rsa.generate_private_key(65537, 2048))
EC = _pem(ec.generate_private_key(ec.SECP256R1()))
CLAIMS = {"sub": "ada", "exp": 4_000_000_000}


@pytest.mark.parametrize(
    ("algorithm", "private", "public"), [("RS256", *RSA), ("ES256", *EC), ("HS256", JWT_SECRET, None)]
)
def test_tokens_of_all_three_kinds_are_taken(algorithm: str, private: str, public: str | None) -> None:
    users = JwtUsers(settings("", jwt_public_key=public or "", jwt_secret="" if public else JWT_SECRET))
    assert users(_asks(jwt.encode(CLAIMS, private, algorithm))) == "ada"


@pytest.mark.parametrize(
    ("claims", "key", "algorithm"),
    [
        ({**CLAIMS, "exp": 1}, JWT_SECRET, "HS256"),
        ({"sub": "ada"}, JWT_SECRET, "HS256"),
        ({"exp": 4_000_000_000}, JWT_SECRET, "HS256"),
        ({**CLAIMS, "sub": ""}, JWT_SECRET, "HS256"),
        (CLAIMS, "another secret of the same length", "HS256"),
        (CLAIMS, JWT_SECRET * 2, "HS512"),
        (CLAIMS, "", "none"),
        (CLAIMS, RSA[0], "RS256"),
    ],
)
def test_invalid_tokens_identify_no_user(claims: dict[str, Any], key: str, algorithm: str) -> None:
    assert JwtUsers(settings(""))(_asks(jwt.encode(claims, key, algorithm))) is None


@pytest.mark.parametrize("value", ["", "Bearer", "Bearer ", "Basic YTpi", "Bearer a.b.c", f"Token {token('ada')}"])
def test_other_authorization_headers_identify_no_user(value: str) -> None:
    assert JwtUsers(settings(""))(_request(value)) is None


def test_the_public_key_is_no_shared_secret() -> None:
    users = JwtUsers(settings("", jwt_public_key=RSA[1], jwt_secret=""))

    def part(value: Any) -> bytes:
        return base64.urlsafe_b64encode(json.encode(value)).rstrip(b"=")

    signed = part({"alg": "HS256", "typ": "JWT"}) + b"." + part(CLAIMS)
    forged = hmac.digest(RSA[1].encode(), signed, hashlib.sha256)
    assert users(_asks((signed + b"." + base64.urlsafe_b64encode(forged).rstrip(b"=")).decode())) is None


def test_audience_issuer_and_claim_are_settings() -> None:
    users = JwtUsers(settings("", jwt_audience="shop", jwt_issuer="me", jwt_claim="user"))
    good = {"user": "ada", "exp": 4_000_000_000, "aud": "shop", "iss": "me"}
    assert users(_asks(jwt.encode(good, JWT_SECRET))) == "ada"
    assert users(_asks(jwt.encode({**good, "aud": "other"}, JWT_SECRET))) is None
    assert users(_asks(jwt.encode({**good, "iss": "other"}, JWT_SECRET))) is None


def _asks(found: str) -> Request:
    return _request(f"Bearer {found}")


def _request(authorization: str) -> Request:
    return Request({"type": "http", "headers": [(b"authorization", authorization.encode())]})
