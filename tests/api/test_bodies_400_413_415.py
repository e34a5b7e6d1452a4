"""Bodies at the limit of their size. `test_every_body_4xx.py` has what every route refuses."""

from __future__ import annotations

from itertools import repeat

import pytest
from fastapi.routing import APIRoute

from latchkey.api import application
from latchkey.api.body import check_body
from tests.api.client import Shop

MIB = 1024 * 1024
V1, V2 = "/v1/subscribers/identify", "/v2/projects/proj_demo/customers"


@pytest.mark.parametrize(("id", "code"), [("", 7220), (" ", 7220), ("null", 7256), ("a/b", 7256), ("x" * 101, 7256)])
async def test_an_id_in_a_body_that_cannot_be_one_has_v1s_own_code(steady_shop: Shop, id: str, code: int) -> None:
    reply = await steady_shop.client.post(V1, {"app_user_id": "ada", "new_app_user_id": id})
    assert (reply.status, reply.json()["code"]) == (400, code)
    reply = await steady_shop.client.post(V2, {"id": id})
    assert (reply.status, reply.json()["param"]) == (400, "id")


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON; charset=utf-8", "application/ld+json"])
async def test_every_way_to_say_json_is_taken(steady_shop: Shop, content_type: str) -> None:
    body = {"app_user_id": "ada", "new_app_user_id": "ada"}
    assert (await steady_shop.client.post(V1, body, content_type=content_type)).status in (200, 201)


async def test_a_body_of_exactly_the_limit_is_read_and_one_byte_more_is_413(steady_shop: Shop) -> None:
    fits = b'{"app_user_id": "ada", "new_app_user_id": "ada"' + b" " * (MIB - 48) + b"}"
    assert len(fits) == MIB
    assert (await steady_shop.client.post(V1, body=fits)).status in (200, 201)
    reply = await steady_shop.client.post(V1, body=fits + b" ")
    assert reply.status == 413
    assert set(reply.json()) == {"code", "message"}
    reply = await steady_shop.client.post(V2, body=fits + b" ")
    assert (reply.status, reply.json()["object"]) == (413, "error")


async def test_a_body_that_announces_to_be_too_large_is_refused_unread(steady_shop: Shop) -> None:
    client = steady_shop.client
    before = client.bytes_read
    reply = await client.post(V2, body=b"x", headers={"content-length": str(MIB + 1)})
    assert (reply.status, client.bytes_read - before) == (413, 0)


@pytest.mark.parametrize("headers", [{}, {"content-length": "10"}, {"content-length": "ten"}])
async def test_a_body_that_lies_about_its_size_is_cut_off(steady_shop: Shop, headers: dict[str, str]) -> None:
    client = steady_shop.client
    before = client.bytes_read
    reply = await client.request("POST", V2, body=repeat(b" " * 65_536), headers=headers)
    assert (reply.status, client.bytes_read - before) == (413, MIB + 65_536)


async def test_no_body_and_what_is_no_object_are_said_in_plain_words(steady_shop: Shop) -> None:
    assert (await steady_shop.client.post(V2, body=b"")).json()["message"] == "Send a body: a JSON object."
    assert (await steady_shop.client.post(V1, body=b"[]")).json()["message"] == "The body must be a JSON object."


def test_every_route_checks_its_body() -> None:
    found = [route for route in application.routes().routes if isinstance(route, APIRoute)]
    assert len(found) > 100
    assert not [route.path for route in found if check_body not in {one.dependency for one in route.dependencies}]
