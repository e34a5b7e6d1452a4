"""The sandbox provider as servers and devices use it: plain HTTP requests over real TLS."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from msgspec import json
from pyreqwest.client import ClientBuilder

from latchkey.process.local_ca.authority import LocalCertificates
from tests.patience import PATIENCE, until
from tests.push.push_provider import APP_ID, KEY, Provider, providing

HELLO = {"app_id": APP_ID, "contents": {"en": "Hello"}, "headings": {"en": "Demo"}}
UNKNOWN = "11111111-2222-3333-4444-555555555555"


class Line:
    """A device's open event stream, and the notifications that arrived on it."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.connected = asyncio.Event()

    async def next(self) -> dict[str, Any]:
        return await asyncio.wait_for(self.events.get(), PATIENCE)


@contextlib.asynccontextmanager
async def line(provider: Provider, id: str, identifier: str = "") -> AsyncIterator[Line]:
    held = Line()

    async def listen() -> None:
        async with (
            ClientBuilder().add_root_certificate_pem(provider.authority).build() as client,
            client.get(f"{provider.url}/api/v1/players/{id}/arrivals")
            .header("Authorization", f"Device {identifier}")
            .streamed_read_buffer_limit(0)
            .build_streamed() as response,
        ):
            assert response.status == 200
            while (chunk := await response.body_reader.read_chunk()) is not None:
                held.connected.set()
                for part in bytes(chunk).split(b"\n"):
                    if part.startswith(b"data: "):
                        held.events.put_nowait(json.decode(part[6:]))

    listening = asyncio.create_task(listen())
    await asyncio.wait_for(held.connected.wait(), PATIENCE)
    try:
        yield held
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


@pytest.mark.parametrize(
    ("path", "ids", "authorization"),
    [
        ("/api/v1/notifications", "include_player_ids", f"Basic {KEY}"),
        ("/notifications", "include_subscription_ids", f"Key {KEY}"),
        ("/notifications", "include_player_ids", f"key {KEY}"),
    ],
)
async def test_old_and_new_clients_are_understood(provider: Provider, authorization: str, ids: str, path: str) -> None:
    device = await provider.device()
    status, reply = await provider.call("POST", path, {**HELLO, ids: [device]}, authorization)
    assert status == 200
    assert reply["id"] == (await provider.sent())[0]["id"]
    assert ("recipients" in reply) == path.startswith("/api")
    assert "errors" not in reply


async def test_without_the_key_nothing_is_sent_or_shown(provider: Provider) -> None:
    device = await provider.device()
    wrong = {"": 401, KEY: 401, f"Bearer {KEY}": 401, "Basic wrong": 403, "Key ": 401}
    requests: tuple[tuple[str, str, Any], ...] = (
        ("POST", "/api/v1/notifications", {**HELLO, "include_player_ids": [device]}),
        ("GET", "/api/v1/notifications", None),
        ("GET", "/api/v1/players", None),
        ("GET", f"/api/v1/players/{device}", None),
        ("DELETE", f"/api/v1/players/{device}", None),
        ("PUT", "/sandbox/fault", {"kind": "down"}),
        ("GET", "/sandbox/fault", None),
        ("DELETE", "/sandbox/fault", None),
    )
    for (method, path, body), (authorization, status) in product(requests, wrong.items()):
        answered, said = await provider.call(method, path, body, authorization)
        assert answered == status, path
        assert "Please include" in said["errors"][0]
    assert await provider.sent() == []


async def test_the_reply_to_a_bad_request_says_what_is_wrong(provider: Provider) -> None:
    changes: tuple[tuple[dict[str, Any], str], ...] = (
        ({"app_id": "another"}, "app_id not found"),
        ({"include_player_ids": []}, "which players"),
        ({"include_player_ids": None}, "which players"),
        ({"include_player_ids": "a"}, "include_player_ids"),
        ({"include_player_ids": [1]}, "include_player_ids"),
        ({"include_player_ids": [f"device-{n}" for n in range(2_001)]}, "at most 2000"),
        ({"contents": {}}, "English"),
        ({"contents": {"de": "Hallo"}}, "English"),
        ({"contents": "Hello"}, "contents"),
    )
    for change, words in changes:
        body = {**HELLO, "include_player_ids": [UNKNOWN], **change}
        status, said = await provider.call("POST", "/api/v1/notifications", body)
        assert (status, words in said["errors"][0]) == (400, True), said


async def test_paths_and_methods_it_does_not_have_are_errors_in_its_own_form(provider: Provider) -> None:
    assert (await provider.call("GET", "/nowhere"))[1] == {"errors": ["Not Found"]}
    assert (await provider.call("PATCH", "/api/v1/notifications"))[0] == 405


async def test_an_answer_for_some_unknown_and_for_nobody(provider: Provider) -> None:
    device, silent = await provider.device(), await provider.device(notification_types=-2)
    _, some = await provider.call(
        "POST", "/notifications", {**HELLO, "include_player_ids": [device, UNKNOWN], "external_id": "one"}
    )
    assert some["id"]
    assert some["external_id"] == "one"
    assert some["errors"] == {"invalid_player_ids": [UNKNOWN]}
    _, nobody = await provider.call("POST", "/notifications", {**HELLO, "include_player_ids": [silent]})
    assert (nobody["id"], nobody["errors"]) == ("", ["All included players are not subscribed"])


async def test_a_connected_device_has_it_at_once_in_its_own_language(provider: Provider) -> None:
    device = await provider.device(language="de-AT")
    async with line(provider, device) as held:
        texts = {"contents": {"en": "Hello", "de": "Hallo"}, "data": {"event": "evt_1"}, "url": "https://app.example/"}
        await provider.call("POST", "/api/v1/notifications", {**HELLO, **texts, "include_player_ids": [device]})
        seen = await held.next()
    assert (seen["heading"], seen["content"]) == ("Demo", "Hallo")
    assert (seen["data"], seen["url"]) == ({"event": "evt_1"}, "https://app.example/")


async def test_notifications_for_a_device_that_is_offline_arrive_once_when_it_connects(provider: Provider) -> None:
    device = await provider.device()
    for text in ("one", "two"):
        body = {**HELLO, "contents": {"en": text}, "include_player_ids": [device]}
        await provider.call("POST", "/api/v1/notifications", body)
    async with line(provider, device) as held:
        assert [(await held.next())["content"] for _ in range(2)] == ["one", "two"]

        async def received() -> bool:
            return [sent["received"] for sent in await provider.sent()] == [1, 1]

        # A notification is marked after it was sent.
        await until(received, "not marked as received")
    async with line(provider, device) as held:
        await provider.call("POST", "/api/v1/notifications", {**HELLO, "include_player_ids": [device]})
        assert (await held.next())["content"] == "Hello"


async def test_only_the_device_itself_can_open_its_stream(provider: Provider) -> None:
    device = await provider.device(identifier="its-own-secret")
    for authorization in ("", "Device another", f"Basic {KEY}"):
        path = f"/api/v1/players/{device}/arrivals"
        assert (await provider.call("GET", path, None, authorization))[0] == 404
    change = {"app_id": APP_ID, "notification_types": -2}
    assert (await provider.call("PUT", f"/api/v1/players/{device}", change, ""))[0] == 404
    assert (await provider.call("PUT", f"/api/v1/players/{device}", change, "Device its-own-secret"))[0] == 200
    async with line(provider, device, "its-own-secret"):
        (shown,) = (await provider.call("GET", "/api/v1/players"))[1]["players"]
        assert (shown["id"], shown["connected"], shown["notification_types"]) == (device, True, -2)
        assert await provider.call("GET", f"/api/v1/players/{device}") == (200, shown)
    assert (await provider.call("GET", "/api/v1/players/nobody"))[0] == 404


async def test_the_same_device_registering_again_keeps_its_id(provider: Provider) -> None:
    first = await provider.device(identifier="token", language="en")
    assert await provider.device(identifier="token", language="de") == first
    assert await provider.device() != await provider.device()
    _, said = await provider.call("GET", "/api/v1/players?limit=1&offset=2")
    assert said["total_count"] == 3
    assert [(player["id"], player["language"]) for player in said["players"]] == [(first, "de")]


async def test_a_forgotten_device_is_unknown_from_then_on(provider: Provider) -> None:
    device, other = await provider.device(), await provider.device()
    assert (await provider.call("DELETE", f"/api/v1/players/{device}"))[0] == 200
    _, said = await provider.call("POST", "/api/v1/notifications", {**HELLO, "include_player_ids": [device, other]})
    assert said["errors"] == {"invalid_player_ids": [device]}


async def test_devices_and_what_was_sent_survive_a_restart(certificates: LocalCertificates, tmp_path: Path) -> None:
    book = str(tmp_path / "push.sqlite")
    async with providing(certificates, book) as provider:
        device = await provider.device(identifier="token")
        body = {**HELLO, "include_player_ids": [device], "external_id": "one"}
        _, before = await provider.call("POST", "/api/v1/notifications", body)
    async with providing(certificates, book) as provider:
        assert await provider.device(identifier="token") == device
        assert (await provider.call("POST", "/api/v1/notifications", body))[1] == before
        async with line(provider, device, "token") as held:
            assert (await held.next())["id"] == before["id"]


async def test_a_fault_lasts_as_long_as_it_was_asked_for(provider: Provider) -> None:
    device = await provider.device()
    body = {**HELLO, "include_player_ids": [device]}
    await provider.fault("busy", seconds=3, times=2)
    assert (await provider.call("GET", "/sandbox/fault"))[1] == {"kind": "busy", "seconds": 3.0, "times": 2}
    seen = [(await provider.call("POST", "/api/v1/notifications", body))[0] for _ in range(3)]
    assert seen == [429, 429, 200]
    await provider.fault("busy")
    assert (await provider.call("POST", "/api/v1/notifications", body))[0] == 429
    await provider.call("DELETE", "/sandbox/fault")
    assert (await provider.call("POST", "/api/v1/notifications", body))[0] == 200
    assert (await provider.call("PUT", "/sandbox/fault", {"kind": "haunted"}))[0] == 400
