"""The pretend stores and the adapters, which share no code, understand each other."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from latchkey.emulators.apple.keys import AppleKeys
from latchkey.emulators.emulator import Emulator
from latchkey.emulators.google.emulator import GoogleKeys
from latchkey.emulators.outbox import Letter, Message
from latchkey.emulators.serving import running
from latchkey.emulators.stripe.emulator import SENT
from latchkey.emulators.stripe.keys import StripeKeys
from latchkey.now import real_now
from latchkey.stores.adapter import Adapter, AppReceipt, ConnectedApp, Incoming, Seen
from latchkey.stores.apple.adapter import AppleAdapter
from latchkey.stores.errors import StoreError
from latchkey.stores.google.adapter import GoogleAdapter
from latchkey.stores.stripe.adapter import StripeAdapter
from latchkey.stores.stripe.notification import EVENT_TYPES
from tests.emulators.apple.shop import app_store
from tests.emulators.google.shop import play_store
from tests.emulators.receiving import receiving
from tests.emulators.stripe.shop import stripe_account

LOOPBACK = frozenset({"127.0.0.1"})
STORES = ("apple", "google", "stripe")


@dataclass
class Latchkey:
    """As much of the service as it takes to read a notification."""

    store: Emulator[Any, Any]
    adapter: Adapter
    app: ConnectedApp
    known: list[Seen] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    async def receive(self, letter: Letter) -> None:
        headers = {name.lower(): value for name, value in letter.headers.items()}
        incoming = Incoming(body=letter.body, headers=headers, received_at=real_now())
        try:
            notification = await self.adapter.verify(self.app, incoming)
            self.known += (await self.adapter.read(self.app, notification.payload)).seen
        except StoreError as error:
            self.refused.append(f"{type(error).__name__}: {error}")


Keys = dict[str, Any]


@pytest.fixture
def keys(apple_keys: AppleKeys, google_keys: GoogleKeys, stripe_keys: StripeKeys) -> Keys:
    return {"apple": apple_keys, "google": google_keys, "stripe": stripe_keys}


ADAPTERS: dict[str, Callable[[], Adapter]] = {
    "apple": lambda: AppleAdapter(real_now),
    "google": lambda: GoogleAdapter(real_now),
    "stripe": lambda: StripeAdapter(real_now),
}
OPENED: dict[str, Callable[[Any], Any]] = {"apple": app_store, "google": play_store, "stripe": stripe_account}


@contextlib.asynccontextmanager
async def connected(name: str, keys: Keys) -> AsyncIterator[tuple[Emulator[Any, Any], Latchkey]]:
    adapter = ADAPTERS[name]()
    async with OPENED[name](keys[name]) as store, running(store) as served:
        credentials = adapter.parse_credentials(store.credentials(served.base_url), LOOPBACK)
        app = ConnectedApp(project_id="p", app_id="a", store=adapter.store, credentials=credentials, version=1)
        yield store, Latchkey(store, adapter, app)
        await adapter.close()


async def deliver(store: Emulator[Any, Any], latchkey: Latchkey, message: Message, lie: str | None = None) -> None:
    await latchkey.receive(store._write(message, lie))


@pytest.mark.parametrize("name", STORES)
async def test_the_credentials_of_a_pretend_store_pass_the_check(name: str, keys: Keys) -> None:
    async with connected(name, keys) as (store, latchkey), receiving() as service:
        store.notification_url = service.url
        await latchkey.adapter.check_credentials(latchkey.app)


@pytest.mark.parametrize("name", STORES)
async def test_every_lie_is_refused_and_the_truth_is_taken(name: str, keys: Keys) -> None:
    async with connected(name, keys) as (store, latchkey):
        store.sell(product_id="coins_100", buyer="ada")
        # In the sandbox Apple gives no app id to compare with, and both environments are taken by what is signed.
        for lie in sorted(store.lies - {"app_id", "environment"}):
            latchkey.refused.clear()
            await deliver(store, latchkey, store.outbox.messages[0], lie)
            assert latchkey.refused, lie
        assert not latchkey.known
        await deliver(store, latchkey, store.outbox.messages[0])
        assert len(latchkey.known) == 1


@pytest.mark.parametrize("name", STORES)
async def test_a_receipt_shows_the_purchase(name: str, keys: Keys) -> None:
    async with connected(name, keys) as (store, latchkey):
        id = store.sell(product_id="coins_100", buyer="ada")
        shown = store.receipt(id)
        receipt = AppReceipt(token=shown["fetch_token"], product_ids=(shown["product_id"],))
        reading = await latchkey.adapter.read_receipt(latchkey.app, receipt)
        (seen,) = reading.seen
        assert (seen.snapshot.id, seen.handle) == (store.known(id).id, id)


def test_stripe_sends_what_latchkey_asks_for() -> None:
    assert set(EVENT_TYPES) == SENT
