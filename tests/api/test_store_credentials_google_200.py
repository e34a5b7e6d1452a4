"""An app of Google Play: credentials in both forms, a push into the journal, and nothing secret in what is shown."""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
from msgspec import json

from latchkey.emulators.google.emulator import GoogleEmulator, make_keys
from latchkey.emulators.serving import running
from tests.api.apple import new_app, put
from tests.api.client import Shop
from tests.api.management import get, walk
from tests.emulators.google.shop import play_store


@pytest.fixture
async def store() -> AsyncIterator[tuple[GoogleEmulator, str]]:
    async with play_store(make_keys()) as emulator, running(emulator) as served:
        yield emulator, served.base_url


async def test_an_app_of_google_play_is_connected_and_hears_of_a_test(
    shop: Shop, store: tuple[GoogleEmulator, str]
) -> None:
    emulator, url = store
    given = emulator.credentials(url)
    app = await new_app(shop, "play_store")
    # The key as an object, and as the text of the file.
    for account in (given["service_account"], json.encode(given["service_account"]).decode()):
        saved = await put(shop, app["id"], {**given, "service_account": account})
        assert (saved.status, saved.json()["check"]["result"]) == (200, "ok"), saved
    shown = (await get(shop, f"apps/{app['id']}/credentials")).body.decode()
    assert "com.example.notes" in shown
    assert given["service_account"]["private_key"].splitlines()[1] not in shown

    emulator.send_test()
    [message] = emulator.outbox.waiting()
    letter = emulator._write(message, None)
    path = urlsplit(app["notification_url"]).path
    for headers, status in (({}, 401), (letter.headers, 200)):
        reply = await shop.client.request("POST", path, key=None, headers=headers, body=letter.body)
        assert reply.status == status, reply
    [entry] = await walk(shop, f"store_notifications?app_id={app['id']}")
    assert (entry["store"], entry["source"], entry["status"]) == ("play_store", "notification", "waiting")
    assert (await get(shop, f"apps/{app['id']}/credentials")).json()["first_notification_at"] == shop.clock.now
