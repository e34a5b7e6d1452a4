"""An app of Google Play: credentials in both forms, a push into the journal, and nothing secret in what is shown."""

from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
from msgspec import json

from latchkey.emulators.emulator_server import running
from latchkey.emulators.google.google_emulator import GoogleEmulator
from latchkey.emulators.google.google_keys import make_google_keys
from latchkey.subjects.api_keys import usecases as keys
from tests.emulators.shops import play_store
from tests.http.apple import new_app, put
from tests.http.client import NOW, Shop
from tests.http.management import get, walk


@pytest.fixture
async def store() -> AsyncIterator[tuple[GoogleEmulator, str]]:
    async with play_store(make_google_keys()) as emulator, running(emulator) as served:
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
    letter = emulator.write(message, None)
    path = urlsplit(app["notification_url"]).path
    for headers, status in (({}, 401), (letter.headers, 200)):
        reply = await shop.client.request("POST", path, key=None, headers=headers, body=letter.body)
        assert reply.status == status, reply
    [entry] = await walk(shop, f"store_notifications?app_id={app['id']}")
    assert (entry["store"], entry["source"], entry["status"]) == ("play_store", "notification", "waiting")
    assert (await get(shop, f"apps/{app['id']}/credentials")).json()["first_notification_at"] == shop.clock.now


async def test_a_purchase_token_is_shown_whole_only_to_keys_that_may_write(
    shop: Shop, store: tuple[GoogleEmulator, str]
) -> None:
    """Whoever knows a token can show it as a receipt."""
    emulator, url = store
    app = await new_app(shop, "play_store")
    await put(shop, app["id"], emulator.credentials(url))
    emulator.sell(product_id="pro_monthly:monthly", buyer="ada")
    [message] = emulator.outbox.waiting()
    letter = emulator.write(message, None)
    path = urlsplit(app["notification_url"]).path
    assert (await shop.client.request("POST", path, key=None, headers=letter.headers, body=letter.body)).status == 200
    [entry] = await walk(shop, f"store_notifications?app_id={app['id']}")
    token = entry["subject"]
    assert len(token) > 100

    reader = await keys.create_secret_key(shop.database, shop.project_id, "reader", NOW, scopes=["read"])
    for path in ("store_notifications", f"store_notifications/{entry['id']}", f"store_notifications?subject={token}"):
        reply = await get(shop, path, key=reader.plaintext)
        assert reply.status == 200
        assert token[:16] + "…" in reply.body.decode()
        assert token[:17] not in reply.body.decode()
