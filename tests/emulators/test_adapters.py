"""The pretend stores and the adapters, which share no code, understand each other."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from latchkey.domain.instants import DAY, Ms
from latchkey.domain.purchases.lifecycle import observe
from latchkey.domain.purchases.purchase import Environment, Purchase, observe_purchase
from latchkey.domain.purchases.settling import settle, settle_purchase
from latchkey.domain.purchases.subscription import Subscription
from latchkey.emulators.apple.keys import AppleKeys
from latchkey.emulators.emulator import Emulator
from latchkey.emulators.google.emulator import GoogleKeys
from latchkey.emulators.outbox import Letter, Message
from latchkey.emulators.serving import running
from latchkey.emulators.stripe.emulator import SENT
from latchkey.emulators.stripe.keys import StripeKeys
from latchkey.emulators.truth import Truth
from latchkey.now import real_now
from latchkey.stores.adapter import Adapter, AppReceipt, ConnectedApp, Incoming, Reading, Seen
from latchkey.stores.apple.adapter import AppleAdapter
from latchkey.stores.errors import StoreError
from latchkey.stores.google.adapter import GoogleAdapter
from latchkey.stores.stripe.adapter import StripeAdapter
from latchkey.stores.stripe.notification import EVENT_TYPES
from tests.emulators.apple.shop import app_store
from tests.emulators.google.shop import play_store
from tests.emulators.lives import live
from tests.emulators.receiving import receiving
from tests.emulators.stripe.shop import stripe_account

LOOPBACK = frozenset({"127.0.0.1"})
STORES = ("apple", "google", "stripe")


@dataclass
class Latchkey:
    """As much of the service as it takes to follow purchases: verify, read, settle, merge."""

    store: Emulator[Any, Any]
    adapter: Adapter
    app: ConnectedApp
    known: dict[str, Subscription | Purchase] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    async def receive(self, letter: Letter) -> None:
        headers = {name.lower(): value for name, value in letter.headers.items()}
        incoming = Incoming(body=letter.body, headers=headers, received_at=real_now())
        try:
            notification = await self.adapter.verify(self.app, incoming)
            self.take(await self.adapter.read(self.app, notification.payload))
        except StoreError as error:
            self.refused.append(f"{type(error).__name__}: {error}")

    async def read_everything_again(self) -> None:
        for one in self.store.truth():
            self.take(await self.adapter.read_again(self.app, one.purchase, Environment.SANDBOX))

    def of(self, truth: Truth) -> Subscription | Purchase | None:
        """By its handle: of a chain, the purchase that was heard of first gives its id here."""
        return self.known.get(self.names.get(truth.purchase, ""))

    def take(self, reading: Reading) -> None:
        for seen in reading.seen:
            self._take(seen)

    def _take(self, seen: Seen) -> None:
        chain = (seen.handle, *seen.replaces)
        id = next((self.names[one] for one in chain if one in self.names), seen.snapshot.id)
        self.names.update(dict.fromkeys(chain, id))
        before = self.known.get(id)
        if isinstance(seen.snapshot, Purchase):
            assert before is None or isinstance(before, Purchase)
            self.known[id] = observe_purchase(before, settle_purchase(before, seen.snapshot))
            return
        assert before is None or isinstance(before, Subscription)
        snapshot = replace(seen.snapshot, id=id)
        self.known[id] = observe(before, settle(before, snapshot, self.store.clock.now(), unordered=seen.unordered))


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


def agrees(known: Subscription | Purchase | None, truth: Truth, now: Ms) -> list[str]:
    """What of the truth is not known."""
    if known is None:
        return [f"{truth.kind} {truth.id} is not known"]
    ends = known.access_ends_at
    wrong = []
    if (ends is None or ends > now) != truth.active:
        wrong.append(f"access ends {ends}, the store says {truth.access_ends_at}")
    if isinstance(known, Subscription) and truth.active:
        status, current = known.status, known.current
        # Google names only the product of a change that waits, not its base plan.
        following = _product(status.next_product_id), _product(truth.next_product_id)
        told = (current.product_id, status.auto_renew, following[0], status.billing_issue_at is not None)
        true = (truth.product_id, truth.auto_renew, following[1], truth.billing_problem)
        if told != true:
            wrong.append(f"{told}, the store says {true}")
        if ends != truth.access_ends_at:
            wrong.append(f"access ends {ends}, the store says {truth.access_ends_at}")
    return [f"{truth.kind} {truth.id}: {one}" for one in wrong]


@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.parametrize("name", STORES)
async def test_random_lives_with_lost_and_late_notifications_end_in_the_state_the_store_has(
    name: str, seed: int, keys: Keys
) -> None:
    async with connected(name, keys) as (store, latchkey), receiving() as service:
        store.notification_url = service.url
        store.misbehave(seed=seed, drop=0.2, duplicate=0.2, reorder=0.3, late=0.2, late_by_hours=30)

        async def process(_: Ms) -> None:
            taken, service.taken[:] = list(service.taken), []
            for one in taken:
                await latchkey.receive(Letter(one.headers, one.raw))

        await live(store, seed, 40, process)
        await store.calm()
        await process(0)
        assert not latchkey.refused
        assert len(store.outbox.messages) > 20
        # What was lost is found when purchases are read again, as the service does it near their end.
        await latchkey.read_everything_again()
        now = store.clock.now()
        truths = [one for one in store.truth() if not one.replaced and _readable(one, now)]
        assert [wrong for one in truths for wrong in agrees(latchkey.of(one), one, now)] == []


def _product(name: str | None) -> str | None:
    return name.partition(":")[0] if name is not None else None


def _readable(truth: Truth, now: Ms) -> bool:
    """Google forgets a token 60 days after the end: nothing is left of a purchase whose notifications were all lost. At
    Stripe nothing is bought before the first payment."""
    if truth.periods == 0:
        return False
    return truth.active or truth.access_ends_at is None or truth.access_ends_at > now - 60 * DAY
