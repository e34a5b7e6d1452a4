"""Every route that takes a body, with every kind of invalid body. New routes are covered automatically.

Each reply is a 4xx with the documented body, and nothing changes: every table has as many rows as before."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from msgspec import json

from latchkey.domain.user_id import BLOCKED, DIRECTIONS
from tests.http.client import NOW, Reply, Shop
from tests.http.doings import count_rows, unhurried
from tests.http.management import post
from tests.http.routes import LENIENT, Route, routes_of, settle
from tests.http.routes import document as openapi_document

pytestmark = pytest.mark.thorough

MIB = 1024 * 1024
HOOK = {"name": "mine", "url": "https://93.184.215.14/hook"}

RAW = {
    "broken": b'{"a": ',
    "two values": b"{} {}",
    "bad UTF-8": b'{"a": "\xff\xfe"}',
    "half a surrogate pair": b'{"a": "\\ud800"}',
    "NUL": b'{"a": "\\u0000"}',
    "not a number": b'{"a": NaN}',
    "infinite": b'{"a": [-Infinity]}',
    "beyond every number": b'{"a": [1e999]}',
    "a number without end": b'{"a": ' + b"1" * 5_000 + b"}",
    "half a surrogate pair, raw": b'{"a": "\xed\xa0\x80"}',
    "NUL in a name": b'{"nul \\u0000": 1}',
    "NUL, raw": b'{"a": "\x00"}',
    "a mark of byte order": b"\xef\xbb\xbf{}",
    "an array": b"[]",
    "an array of objects": b"[{}]",
    "null": b"null",
    "a text": b'"x"',
    "a number": b"1",
    "nothing but a space": b" ",
    "too deep": b'{"a":' * 100 + b"1" + b"}" * 100,
    "far too deep": b"[" * 200_000,
}


def documented(route: Route, reply: Reply, statuses: set[int], what: object) -> None:
    assert reply.status in statuses, (route.name, what, reply)
    body = reply.json()
    if route.version == "v1":
        assert set(body) - {"attribute_errors"} == {"code", "message"}, (route.name, what, body)
        assert 7000 <= body["code"] < 8000
    else:
        assert (body["object"], body["retryable"]) == ("error", False), (route.name, what, body)
        assert set(body) <= {"object", "type", "message", "retryable", "param"}
    assert body["message"]
    assert str(reply.status) in route.operation["responses"], (route.name, what)


@pytest.fixture
async def settled(shop: Shop) -> Shop:
    await unhurried(shop)
    return shop


async def send(shop: Shop, route: Route, names: dict[str, str], body: bytes, **options: Any) -> Reply:
    return await shop.client.request(route.method, route.path(names), body=body, **options)


def taking_bodies(shop: Shop) -> list[Route]:
    return [route for route in routes_of(shop) if route.takes_body]


async def test_a_body_that_is_no_object_in_json_is_400(settled: Shop) -> None:
    names = await settle(settled)
    before = await count_rows(settled)
    for route in taking_bodies(settled):
        for what, body in RAW.items():
            optional = what == "null" and not route.needs_body
            if not optional:
                documented(route, await send(settled, route, names, body), {400}, what)
        if route.needs_body:
            documented(route, await send(settled, route, names, b""), {400}, "nothing")
    assert await count_rows(settled) == before


async def test_a_body_over_1_mib_is_413_and_one_that_is_not_json_415(settled: Shop) -> None:
    names = await settle(settled)
    before = await count_rows(settled)
    for route in routes_of(settled):
        if route.writes and route.method != "DELETE":
            documented(route, await send(settled, route, names, b" " * (MIB + 1)), {413}, "1 MiB + 1")
    for route in taking_bodies(settled):
        good = json.encode(route.body)
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None):
            documented(route, await send(settled, route, names, good, content_type=kind), {415}, kind)
    assert await count_rows(settled) == before


async def test_a_body_where_none_is_asked_for_is_400_unless_it_is_empty(settled: Shop) -> None:
    names = await settle(settled)
    before = await count_rows(settled)
    asking_none = [route for route in routes_of(settled) if route.writes and not route.takes_body]
    assert any(route.name.endswith("/revoke") for route in asking_none)
    for route in asking_none:
        for what in (b'{"amount": 5}', b'{"a": ', b"[1]", b"5"):
            documented(route, await send(settled, route, names, what), {400}, what)
    assert await count_rows(settled) == before


async def test_a_field_that_is_not_known_is_400_and_named_but_for_what_apps_send(settled: Shop) -> None:
    names = await settle(settled)
    before = await count_rows(settled)
    for route in taking_bodies(settled):
        if route.name in LENIENT:
            continue
        reply = await send(settled, route, names, json.encode({**route.body, "colour": "green"}))
        documented(route, reply, {400}, "unknown field")
        assert "colour" in reply.json().get("param", reply.json()["message"])
    assert await count_rows(settled) == before


async def test_a_field_that_is_there_twice_is_400_and_named(settled: Shop) -> None:
    """Some parsers take the first of two values and some the last, so a check could see another value than the one
    used."""
    names = await settle(settled)
    before = await count_rows(settled)
    for route in taking_bodies(settled):
        good = json.encode(route.body)
        for field, value in route.body.items():
            for spelt in (field, f"\\u{ord(field[0]):04x}{field[1:]}"):
                again = b'{"%s":%s,' % (spelt.encode(), json.encode(value))
                reply = await send(settled, route, names, again + good[1:])
                documented(route, reply, {400}, spelt)
                assert f"'{field}' twice" in reply.json()["message"]
        if route.name.endswith("/attributes"):
            inner = b'{"attributes":{"a":{"value":"x","updated_at_ms":%d,"value":"y"}}}' % NOW
            documented(route, await send(settled, route, names, inner), {400}, "further in")
    assert await count_rows(settled) == before


async def test_an_id_that_only_a_bug_sends_is_400_wherever_an_id_is_taken(settled: Shop) -> None:
    names = await settle(settled)
    before = await count_rows(settled)
    for route in taking_bodies(settled):
        for field in {"app_user_id", "new_app_user_id", "target_customer_id"} & set(route.body):
            for id in BLOCKED | DIRECTIONS:
                reply = await send(settled, route, names, json.encode({**route.body, field: id}))
                documented(route, reply, {400}, (field, id))
    people = [r for r in routes_of(settled) if {"{app_user_id}", "{customer_id}"} & set(r.template.split("/"))]
    for route in people:
        for id in ("null", "%5B%5D", "-1", "%5C0", "a%2Fb", "%20", "x" * 101, "%00", "%FF", "%zz"):
            path = route.path({**names, "app_user_id": id, "customer_id": id})
            body = json.encode(route.body) if route.takes_body else b""
            documented(route, await settled.client.request(route.method, path, body=body), {400}, id)
    assert len(people) > 20
    assert await count_rows(settled) == before


def fields_of(route: Route, document: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The fields of a body in the document, and those that must be there."""
    schema = route.operation["requestBody"]["content"]["application/json"]["schema"]
    if "$ref" not in schema:
        schema = next(one for one in schema["anyOf"] if "$ref" in one)
    shape = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return shape["properties"], shape.get("required", [])


def wrong_values(schema: dict[str, Any], document: dict[str, Any]) -> Iterator[Any]:
    """Values that the document does not allow for this field: of another type, too small, too large, too long."""
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    kinds = {one.get("type", "object" if "$ref" in one else None) for one in schema.get("anyOf", [schema])}
    for kind, value in (
        ("string", "\x01 not this"),
        ("integer", 7),
        ("boolean", True),
        ("array", [None]),
        ("object", {"": None}),
        ("null", None),
    ):
        number = kind == "integer" and "number" in kinds
        if kind not in kinds and not number:
            yield value
    if "integer" in kinds:
        yield from (1.5, 2**63, -(2**63))
    for one in schema.get("anyOf", [schema]):
        yield from (one[name] + step for name, step in (("minimum", -1), ("maximum", 1)) if name in one)
        if "maxLength" in one:
            yield "x" * (one["maxLength"] + 1)
        if one.get("minLength"):
            yield ""
        if {"enum", "pattern"} & one.keys() and one.get("type") == "string":
            yield "\x01 not this"
        if one.get("minItems"):
            yield []


async def test_a_value_that_the_document_does_not_allow_is_400_in_every_field_and_named(settled: Shop) -> None:
    names = await settle(settled)
    names["webhook_id"] = (await post(settled, "integrations/webhooks", HOOK)).json()["id"]
    document = openapi_document()
    before, tried = await count_rows(settled), 0
    for route in taking_bodies(settled):
        fields, needed = fields_of(route, document)
        wrong = [
            (field, {**deepcopy(route.body), field: value})
            for field, allowed in fields.items()
            for value in wrong_values(allowed, document)
        ]
        missing = [(field, {name: value for name, value in route.body.items() if name != field}) for field in needed]
        for field, body in (*wrong, *missing):
            # A field that takes every type is ignored where it cannot be read; the body is refused for another reason.
            typed = bool({"type", "anyOf", "$ref"} & fields[field].keys())
            reply = await send(settled, route, names, json.encode(body))
            documented(route, reply, {400} if typed else {400, 422}, (field, body.get(field)))
            if typed and route.version == "v2":
                assert reply.json()["param"].split(".")[0] == field, (route.name, reply)
            tried += 1
    assert tried > 1_500
    assert await count_rows(settled) == before
