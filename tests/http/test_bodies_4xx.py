"""Bodies at the limit of their size, and what replies say about wrong fields. `test_every_body_4xx.py` has what every
route refuses."""

from datetime import date
from itertools import repeat
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, BeforeValidator, Field, TypeAdapter, ValidationError

from latchkey.http.errors import InvalidParameter, said
from tests.http.client import Shop

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


class Thing(BaseModel, extra="forbid", strict=True):
    name: str


def refuse(value: object) -> object:
    raise ValueError("The name is taken.")


@pytest.mark.parametrize(
    ("kind", "sent", "sentence"),
    [
        (Thing, {}, "This field is required."),
        (Thing, {"name": "a", "other": 1}, "There is no such field."),
        (Thing, {"name": 1}, "It must be a string."),
        (Thing, [], "It must be an object."),
        (dict[str, str], 1, "It must be an object."),
        (list[str], {}, "It must be a list."),
        (int, "many", "It must be a whole number."),
        (int, 1.5, "It must be a whole number."),
        (float, "much", "It must be a number."),
        (bool, "perhaps", "It must be true or false."),
        (date, "tomorrow", "It must be a date such as 2027-01-31."),
        (Literal["app", "store"], "x", "It must be 'app' or 'store'."),
        (Annotated[int, Field(ge=1)], 0, "It must be at least 1."),
        (Annotated[int, Field(le=90)], 91, "It must be at most 90."),
        (Annotated[float, Field(gt=0)], 0, "It must be greater than 0.0."),
        (Annotated[str, Field(max_length=3)], "long", "It may have at most 3 characters."),
        (Annotated[str, Field(min_length=1)], "", "It must have at least 1 character."),
        (Annotated[list[int], Field(min_length=1)], [], "It must have at least 1 entry."),
        (Annotated[list[int], Field(max_length=2)], [1, 2, 3], "It may have at most 2 entries."),
        (Annotated[str, Field(pattern="^[A-Z]{3}$")], "usd", "It does not have the required form; see /docs."),
        (Annotated[str, BeforeValidator(refuse)], "ada", "The name is taken."),
    ],
)
def test_a_wrong_field_gets_a_sentence_without_words_of_the_framework(kind: Any, sent: object, sentence: str) -> None:
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(kind).validate_python(sent)
    assert said(refused.value.errors()[0]) == sentence


def test_a_reply_does_not_repeat_a_megabyte() -> None:
    error = InvalidParameter(f"{'x' * 1_000_000}: There is no such field.", param="x" * 1_000_000)
    assert len(error.body("v2", "")) < 2_000
    assert error.message.endswith("x…")
