"""`/api/devices`: which phone belongs to which user."""

from typing import Any

import pytest
from msgspec import json

from tests.consumer.world import World, both_databases, token, world
from tests.http.client import Reply

PHONE = "1dd608f2-c6a1-11e3-851d-000c2940e62c"


async def ask(here: World, method: str, path: str, user: str | None = "ada", body: Any = None) -> Reply:
    headers = {"authorization": f"Bearer {token(user)}"} if user is not None else {}
    raw = body if isinstance(body, bytes) else json.encode(body)
    return await here.asking.request(method, path, body=raw, key=None, headers=headers)


async def register(here: World, player_id: str = PHONE, user: str = "ada", **more: Any) -> Reply:
    return await ask(here, "POST", "/api/devices", user, {"player_id": player_id, **more})


async def phones(here: World, user: str = "ada") -> list[str]:
    reply = await ask(here, "GET", "/api/devices", user)
    assert reply.status == 200
    return [device["player_id"] for device in reply.json()["devices"]]


@both_databases
async def test_a_phone_is_registered_once_however_often_it_registers(here: World) -> None:
    first = await register(here, platform="android", language="de-AT")
    assert first.status == 201
    assert first.json() == {
        "player_id": PHONE, "platform": "android", "language": "de-AT", "last_seen_at": "2027-01-15T08:00:00Z",
    }  # fmt: skip
    here.clock.now += 1_000
    again = await register(here, platform="android", language="en")
    assert again.status == 200
    assert await phones(here) == [PHONE]
    assert (await ask(here, "GET", "/api/devices")).json()["devices"][0]["language"] == "en"


async def test_a_phone_belongs_to_whoever_registered_it_last(here: World) -> None:
    await register(here, user="ada")
    assert (await register(here, user="bob")).status == 201
    assert (await phones(here, "ada"), await phones(here, "bob")) == ([], [PHONE])


async def test_a_user_removes_only_phones_of_their_own(here: World) -> None:
    await register(here, user="ada")
    assert (await ask(here, "DELETE", f"/api/devices/{PHONE}", "bob")).status == 404
    assert (await ask(here, "DELETE", "/api/devices/unknown", "ada")).json() == {"error": "Device not found"}
    assert (await ask(here, "DELETE", f"/api/devices/{PHONE}", "ada")).json() == {"message": "Device removed"}
    assert await phones(here) == []


@both_databases
async def test_the_phone_not_seen_for_longest_makes_room(url: str) -> None:
    async with world(url, devices_per_user=2) as here:
        await register(here, "bobs", user="bob")
        for name in ("first", "second", "third", "first"):
            here.clock.now += 1_000
            await register(here, name)
        assert await phones(here) == ["first", "third"]
        assert await phones(here, "bob") == ["bobs"]


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"null", b"{", b"\xff", b"[" * 4_000, {}, {"player_id": ""}, {"player_id": 7}, {"player_id": None},
        {"player_id": "a b"}, {"player_id": "a\n"}, {"player_id": "a\x00"}, {"player_id": "ä"},
        {"player_id": "x" * 256},
        {"player_id": "a", "platform": "x" * 33}, {"player_id": "a", "platform": "a\x00"},
        {"player_id": "a", "language": "<script>"}, {"player_id": "a", "language": "english please"},
    ],
)  # fmt: skip
async def test_what_is_not_a_device_is_refused(here: World, body: Any) -> None:
    reply = await ask(here, "POST", "/api/devices", body=body)
    assert (reply.status, reply.json()) == (400, {"error": "Invalid device"})
    assert (await here.counts())["billing_devices"] == 0


async def test_a_body_that_is_too_large_is_refused(here: World) -> None:
    assert (await ask(here, "POST", "/api/devices", body=b" " * 5_000)).status == 413
