"""POST /v1/subscribers/{app_user_id}/attributes."""

from typing import Any
from urllib.parse import quote

import pytest
from msgspec import json

from tests.http.client import NOW, Reply, Shop
from tests.http.doings import count_rows, subscriber


async def note(shop: Shop, app_user_id: str, attributes: Any, **options: Any) -> Reply:
    return await shop.client.post(f"/v1/subscribers/{app_user_id}/attributes", {"attributes": attributes}, **options)


def one(value: str | None, at: int = NOW) -> dict[str, Any]:
    return {"value": value, "updated_at_ms": at}


async def noted(shop: Shop, app_user_id: str) -> Any:
    return (await subscriber(shop, app_user_id))["subscriber_attributes"]


async def test_attributes_of_a_stranger_make_the_subscriber(steady_shop: Shop) -> None:
    attributes = {"$email": one("eve@example.com"), "favourite colour": one("green")}
    reply = await note(steady_shop, "eve", attributes)
    assert (reply.status, reply.json()) == (200, {**(await steady_shop.v1("eve")).json(), "attribute_errors": []})
    assert await noted(steady_shop, "eve") == attributes
    items = (await steady_shop.v2("eve")).json()["attributes"]["items"]
    assert [(item["name"], item["value"], item["updated_at"]) for item in items] == [
        ("$email", "eve@example.com", NOW),
        ("favourite colour", "green", NOW),
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ä", "x"),
        ("plan", "x" * 501),
        ("$email", "nobody"),
    ],
)
async def test_what_cannot_be_kept_is_7263_and_named_and_the_others_are_saved(
    steady_shop: Shop, name: str, value: str
) -> None:
    """The SDKs take every 4xx for "the server has them" and never send the good ones again."""
    who = f"{len(name)} {len(value)} {value[:6]}"
    reply = await note(steady_shop, quote(who), {"fine": one("x"), name: one(value), "too": one("y")})
    assert (reply.status, reply.json()["code"]) == (400, 7263)
    [error] = reply.json()["attribute_errors"]
    assert error["key_name"] == name
    assert error["message"]
    assert await noted(steady_shop, who) == {"fine": one("x"), "too": one("y")}


@pytest.mark.parametrize("escape", [rb"\u0000", rb"\ud83d"])
async def test_a_character_that_cannot_be_stored_is_left_out_and_no_attribute_is_lost(
    steady_shop: Shop, escape: bytes
) -> None:
    who, attributes = f"c{len(escape)}{escape[-1]}", {"$email": one("eve@example.com"), "name": one("Eve~")}
    sent = json.encode({"attributes": attributes, "unused": {"~": 1}}).replace(b"~", escape)
    path = f"/v1/subscribers/{who}/attributes"
    reply = await steady_shop.client.request("POST", path, body=sent, key=steady_shop.public)
    assert (reply.status, reply.json()["attribute_errors"]) == (200, [])
    assert await noted(steady_shop, who) == {**attributes, "name": one("Eve")}


async def test_if_none_can_be_kept_nobody_is_created(steady_shop: Shop) -> None:
    before = await count_rows(steady_shop)
    reply = await note(steady_shop, "refused", {"": one("x"), "$email": one("nobody")})
    assert (reply.status, len(reply.json()["attribute_errors"])) == (400, 2)
    assert await count_rows(steady_shop) == before


async def test_a_public_key_sees_none_of_them_in_the_reply(steady_shop: Shop) -> None:
    reply = await note(steady_shop, "secretive", {"plan": one("x")}, key=steady_shop.public)
    assert "subscriber_attributes" not in reply.json()["subscriber"]


def left_out(reply: Reply, *names: str) -> None:
    assert (reply.status, reply.json()["code"]) == (400, 7263), reply
    assert [error["key_name"] for error in reply.json()["attribute_errors"]] == list(names)


async def test_a_customer_has_at_most_100_attributes_and_can_make_room(steady_shop: Shop) -> None:
    await note(steady_shop, "full", {f"n{n}": one("x") for n in range(100)})
    left_out(await note(steady_shop, "full", {"more": one("x")}), "more")
    assert len(await noted(steady_shop, "full")) == 100
    assert (await note(steady_shop, "full", {"more": one("x"), "n0": one(None, NOW + 1)})).status == 200
    assert "more" in await noted(steady_shop, "full")
    # It was deleted later than this one was set: nothing is missing.
    assert (await note(steady_shop, "full", {"n0": one("x")})).status == 200


async def test_new_ones_beyond_the_limit_are_named_and_the_others_are_saved(steady_shop: Shop) -> None:
    await note(steady_shop, "stuffed", {f"n{n}": one("x") for n in range(100)})
    newer = {"a": one("x"), "n1": one("y", NOW + 1), "n2": one("", NOW + 1), "b": one("x"), "$email": one("nobody")}
    left_out(await note(steady_shop, "stuffed", newer), "$email", "b")
    found = await noted(steady_shop, "stuffed")
    assert (len(found), found["a"], found["n1"]) == (100, one("x"), one("y", NOW + 1))
    assert not {"n2", "b", "$email"} & found.keys()
    # One that was deleted and is set again is a new one.
    left_out(await note(steady_shop, "stuffed", {"n2": one("z", NOW + 2)}), "n2")


async def test_one_who_has_too_many_after_a_merge_can_still_delete_and_change_some(steady_shop: Shop) -> None:
    anonymous = "$RCAnonymousID:" + "c" * 32
    for part, user in enumerate((anonymous, "collector")):
        assert (await note(steady_shop, user, {f"n{part}.{n}": one("x") for n in range(60)})).status == 200
    merge = {"app_user_id": anonymous, "new_app_user_id": "collector"}
    merged = await steady_shop.client.post("/v1/subscribers/identify", merge, key=steady_shop.public)
    assert merged.status in (200, 201)
    assert (await note(steady_shop, "collector", {"n0.1": one(None, NOW + 1)})).status == 200
    assert (await note(steady_shop, "collector", {"n0.2": one("y", NOW + 1)})).status == 200
    left_out(await note(steady_shop, "collector", {"another": one("y"), "n0.3": one("y", NOW + 1)}), "another")
    found = await noted(steady_shop, "collector")
    assert (len(found), found["n0.3"]["value"]) == (119, "y")


@pytest.mark.parametrize(
    "attribute",
    [
        None,
        "b",
        {"updated_at_ms": NOW},
        {"value": 1, "updated_at_ms": NOW},
        {"value": "b", "updated_at_ms": 1},
        {"value": "b", "updated_at_ms": "today"},
        {"value": "b", "updated_at_ms": NOW * 1000},
    ],
)
async def test_an_attribute_of_another_shape_is_named(steady_shop: Shop, attribute: Any) -> None:
    reply = await note(steady_shop, "refused", {"a": attribute})
    assert (reply.status, reply.json()["code"]) == (400, 7263), reply
    assert [error["key_name"] for error in reply.json()["attribute_errors"]] == ["a"]
    assert (await steady_shop.v2("refused")).status == 404


async def test_without_a_moment_an_attribute_counts_from_now_on(steady_shop: Shop) -> None:
    await note(steady_shop, "undated", {"a": one("old", NOW - 1)})
    assert (await note(steady_shop, "undated", {"a": {"value": "new"}, "b": {"value": None}})).status == 200
    assert await noted(steady_shop, "undated") == {"a": one("new", NOW)}


async def test_a_moment_with_a_fraction_is_read(steady_shop: Shop) -> None:
    assert (await note(steady_shop, "floating", {"a": {"value": "new", "updated_at_ms": NOW - 0.5}})).status == 200
    assert await noted(steady_shop, "floating") == {"a": one("new", NOW - 1)}


async def test_of_more_than_100_attributes_the_first_are_saved(steady_shop: Shop) -> None:
    reply = await note(steady_shop, "many", {f"n{n}": one("b") for n in range(101)})
    assert (reply.status, reply.json()["attribute_errors"][0]["key_name"]) == (400, "attributes")
    assert len(await noted(steady_shop, "many")) == 100


async def test_a_moment_in_the_future_counts_as_now_so_no_app_key_can_pin_a_value(shop: Shop) -> None:
    far = 7_258_118_400_000
    pinned = {"attributes": {"$email": {"value": "evil@example.org", "updated_at_ms": far}}}
    assert (await shop.client.post("/v1/subscribers/vic/attributes", pinned, key=shop.public)).status == 200
    shop.clock.now += 1
    right = {"attributes": {"$email": {"value": "vic@example.com", "updated_at_ms": shop.clock.now}}}
    assert (await shop.client.post("/v1/subscribers/vic/attributes", right)).status == 200
    noted = (await shop.v1("vic")).json()["subscriber"]["subscriber_attributes"]
    assert noted == {"$email": {"value": "vic@example.com", "updated_at_ms": shop.clock.now}}
