"""An App Store emulator that an app of the shop is connected to."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from msgspec import json

from latchkey.emulators.apple.apple_books import AppleBooks
from latchkey.emulators.apple.apple_emulator import AppleApp, AppleEmulator
from latchkey.emulators.apple.apple_keys import AppleKeys, make_apple_keys
from latchkey.emulators.emulator import EmulatorClock
from latchkey.emulators.emulator_server import running
from latchkey.http.services import Services
from latchkey.subjects.purchase_intake.usecases.notifications import Processor
from tests.http.client import NOW, Reply, Shop


@cache
def keys() -> AppleKeys:
    return make_apple_keys()


def app_store_credentials(base_url: str = "http://127.0.0.1:1") -> dict[str, Any]:
    return {
        "bundle_id": "com.example.notes",
        "app_apple_id": 1_234_567_890,
        "issuer_id": keys().issuer_id,
        "key_id": keys().key_id,
        "private_key": keys().private_key,
        "root_certificates": [keys().chain.root_pem],
        "api_base_url": base_url,
    }


@dataclass
class AppStore:
    emulator: AppleEmulator
    url: str

    @property
    def credentials(self) -> dict[str, Any]:
        return self.emulator.credentials(self.url)

    async def send(self, shop: Shop, notification_url: str, lie: str | None = None) -> list[Reply]:
        """Send every notification that waits, in process."""
        sent = []
        for message in self.emulator.outbox.waiting():
            letter = self.emulator.write(message, lie)
            path = urlsplit(notification_url).path
            sent.append(await shop.client.request("POST", path, key=None, body=letter.body))
            message.state = "delivered"
        return sent


@asynccontextmanager
async def app_store() -> AsyncIterator[AppStore]:
    app = AppleApp(bundle_id="com.example.notes", app_apple_id=1_234_567_890)
    emulator = AppleEmulator(keys(), app, AppleBooks(), EmulatorClock(starts_at=NOW, ticks=False))
    async with running(emulator) as served:
        yield AppStore(emulator, served.base_url)


async def new_app(shop: Shop, store: str = "app_store") -> dict[str, Any]:
    reply = await shop.client.post(f"/v2/projects/{shop.project_id}/apps", {"name": "Notes", "store": store})
    assert reply.status == 201, reply
    made: dict[str, Any] = reply.json()
    return made


async def put(shop: Shop, app_id: str, credentials: Any) -> Reply:
    path = f"/v2/projects/{shop.project_id}/apps/{app_id}/credentials"
    return await shop.client.request("PUT", path, body=json.encode(credentials))


async def connected_app(shop: Shop, store: AppStore) -> dict[str, Any]:
    """A new app with credentials."""
    app = await new_app(shop)
    reply = await put(shop, app["id"], store.credentials)
    assert (reply.status, reply.json()["check"]["result"]) == (200, "ok"), reply
    return app


def processor(shop: Shop) -> Processor:
    """What runs in the background."""
    front: Any = shop.client.app
    services: Services = front.reads._services
    return Processor(shop.database, services.stores, services.changes, shop.clock)


async def process(shop: Shop) -> int:
    """What the background does with waiting entries."""
    return await processor(shop).process_due()
