"""Bodies that are too large, not JSON, or JSON that cannot be stored, sent to a route made for this test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import repeat
from typing import Any

import pytest
from fastapi.routing import APIRoute
from starlette.responses import Response

from latchkey.api import application
from latchkey.api.authentication import SecretWriteKey
from latchkey.api.body import check_body
from latchkey.api.models import AppUserId, Body, Instant
from latchkey.api.routing import Router
from latchkey.api.routing import reply as answer
from latchkey.settings import Settings
from latchkey.usecases.access import keys
from latchkey.usecases.sandbox.demo import PROJECT_ID
from tests.api.client import NOW, Client, Clock, running
from tests.databases import DemoShelf

MIB = 1024 * 1024
router = Router()


class Note(Body):
    text: str
    app_user_id: AppUserId = "ada"
    at_ms: Instant = NOW
    nested: dict[str, Any] | list[Any] | None = None


async def echo(caller: SecretWriteKey, note: Note) -> Response:
    return answer({"text": note.text})


router.post("/v1/echo")(echo)
router.post("/v2/echo")(echo)


@pytest.fixture(scope="module")
async def served(demo_shelf: DemoShelf) -> AsyncIterator[Client]:
    # Routes are built once per process; this file builds its own, which takes half a second.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(application, "routes", application.routes.__wrapped__)
        patch.setattr(application, "ROUTERS", (*application.ROUTERS, router))
        async with demo_shelf.shelf.lend() as database:
            settings = Settings(database_url=database.url, secret_key=bytes(32))
            app = application.create_application(database, settings, Clock())
            issued = await keys.create_secret_key(database, PROJECT_ID, "unhurried", NOW, rate_limit=1_000_000)
            async with running(app):
                yield Client(app, issued.plaintext)


@pytest.fixture
def client(served: Client) -> Client:
    return Client(served.app, served.key)


async def test_a_good_body_is_taken(client: Client) -> None:
    assert (await client.post("/v2/echo", {"text": "ünï 🎟 \\u0000"})).json() == {"text": "ünï 🎟 \\u0000"}


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b'{"text": "a"',
        b"text=a",
        b'{"text": "a"} x',
        b'{"text": NaN}',
        b'{"text": "a", "nested": [Infinity]}',
        b'{"text": "a", "nested": [-Infinity]}',
        b'{"text": "a", "nested": [1e999]}',
        b'{"text": "a\xff"}',
        b'{"text": "\xed\xa0\x80"}',
        b'{"text": "\\ud800"}',
        b'{"text": "\\udc00 alone"}',
        b'{"text": "nul \\u0000"}',
        b'{"nul \\u0000": "a"}',
        b'{"text": "a", "nested": {"deep": ["\\u0000"]}}',
        b'{"text": "raw \x00"}',
        b'{"text": "a", "nested": ' + b"[" * 100 + b"]" * 100 + b"}",
        b"[" * 200_000,
        b'{"a":' * 50_000,
        b'{"text": "a", "nested": [' + b"1" * 5_000 + b"]}",
        b"'single'",
        b"\xef\xbb\xbf{}",
    ],
)
async def test_json_that_is_none_is_400_in_both_bodies(client: Client, body: bytes) -> None:
    reply = await client.post("/v1/echo", body=body)
    assert (reply.status, reply.json()["code"]) == (400, 7226)
    assert set(reply.json()) == {"code", "message"}
    reply = await client.post("/v2/echo", body=body)
    assert (reply.status, reply.json()["object"]) == (400, "error")
    assert reply.json()["message"]


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ({}, "text"),
        ({"text": 1}, "text"),
        ({"text": None}, "text"),
        ({"text": "a", "colour": 1}, "colour"),
        ({"text": "a", "at_ms": "1800000000000"}, "at_ms"),
        ({"text": "a", "at_ms": 1800000000000.5}, "at_ms"),
        ({"text": "a", "at_ms": True}, "at_ms"),
        ({"text": "a", "at_ms": 1_800_000_000}, "at_ms"),
        ({"text": "a", "at_ms": 1_800_000_000_000_000}, "at_ms"),
        ([], None),
        ("text", None),
        (1, None),
    ],
)
async def test_a_field_that_is_wrong_is_400_and_named(client: Client, value: Any, param: str | None) -> None:
    reply = await client.post("/v2/echo", value)
    assert (reply.status, reply.json()["type"]) == (400, "parameter_error")
    assert reply.json().get("param") == param
    reply = await client.post("/v1/echo", value)
    assert (reply.status, reply.json()["code"]) == (400, 7226)


async def test_no_body_where_one_is_needed_is_400(client: Client) -> None:
    assert (await client.post("/v2/echo", body=b"")).status == 400


@pytest.mark.parametrize(("id", "code"), [("", 7220), (" ", 7220), ("null", 7256), ("a/b", 7256), ("x" * 101, 7256)])
async def test_an_id_in_a_body_that_cannot_be_one_has_v1s_own_code(client: Client, id: str, code: int) -> None:
    reply = await client.post("/v1/echo", {"text": "a", "app_user_id": id})
    assert (reply.status, reply.json()["code"]) == (400, code)
    reply = await client.post("/v2/echo", {"text": "a", "app_user_id": id})
    assert (reply.status, reply.json()["param"]) == (400, "app_user_id")


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None]
)
async def test_a_body_that_does_not_say_it_is_json_is_415(client: Client, content_type: str | None) -> None:
    for path in ("/v1/echo", "/v2/echo"):
        reply = await client.post(path, {"text": "a"}, content_type=content_type)
        assert reply.status == 415


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON; charset=utf-8", "application/ld+json"])
async def test_every_way_to_say_json_is_taken(client: Client, content_type: str) -> None:
    assert (await client.post("/v2/echo", {"text": "a"}, content_type=content_type)).status == 200


async def test_a_body_of_exactly_the_limit_is_taken_and_one_byte_more_is_413(client: Client) -> None:
    fits = b'{"text": "' + b"x" * (MIB - 12) + b'"}'
    assert len(fits) == MIB
    assert (await client.post("/v2/echo", body=fits)).status == 200
    reply = await client.post("/v2/echo", body=fits + b" ")
    assert (reply.status, reply.json()["object"]) == (413, "error")
    reply = await client.post("/v1/echo", body=fits + b" ")
    assert reply.status == 413
    assert set(reply.json()) == {"code", "message"}


async def test_a_body_that_announces_to_be_too_large_is_refused_unread(client: Client) -> None:
    reply = await client.post("/v2/echo", body=b"x", headers={"content-length": str(MIB + 1)})
    assert (reply.status, client.bytes_read) == (413, 0)


@pytest.mark.parametrize("headers", [{}, {"content-length": "10"}, {"content-length": "ten"}])
async def test_a_body_that_lies_about_its_size_is_cut_off(client: Client, headers: dict[str, str]) -> None:
    reply = await client.request("POST", "/v2/echo", body=repeat(b" " * 65_536), headers=headers)
    assert (reply.status, client.bytes_read) == (413, MIB + 65_536)


async def test_no_body_and_what_is_no_object_are_said_in_plain_words(client: Client) -> None:
    assert (await client.post("/v2/echo", body=b"")).json()["message"] == "Send a body: a JSON object."
    assert (await client.post("/v1/echo", body=b"[]")).json()["message"] == "The body must be a JSON object."


def test_every_route_checks_its_body() -> None:
    found = [route for route in application.routes().routes if isinstance(route, APIRoute)]
    assert len(found) > 100
    assert not [route.path for route in found if check_body not in {one.dependency for one in route.dependencies}]
