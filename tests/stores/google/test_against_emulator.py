"""The adapter against the pretend Google Play, over HTTP: whatever happens there ends as the store has it."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import msgspec
import pytest

from latchkey.domain.events.event import EventType
from latchkey.domain.instants import DAY, HOUR
from latchkey.domain.refusal import Refusal
from latchkey.emulators.clock import Clock
from latchkey.emulators.google.emulator import App, GoogleEmulator, GoogleKeys, make_keys
from latchkey.emulators.google.state import Life as Books
from latchkey.emulators.serving import running
from latchkey.emulators.truth import Truth
from latchkey.stores.adapter import AppReceipt, ConnectedApp, Incoming
from latchkey.stores.errors import Misdirected, NotAuthentic, StoreError
from latchkey.stores.google.adapter import GoogleAdapter
from latchkey.stores.http import StoreHttp
from tests.emulators.receiving import Service, receiving
from tests.stores.google.life import Life

START = 1_800_000_000_000


@pytest.fixture(scope="module")
def emulator_keys() -> GoogleKeys:
    return make_keys()


@dataclass
class Connection:
    """A pretend Google Play, and the adapter that is connected to it."""

    store: GoogleEmulator
    service: Service
    google: GoogleAdapter
    app: ConnectedApp
    life: Life
    heard: int = field(default=0)

    async def arrived(self) -> list[Incoming]:
        """The pushes since the last call."""
        await self.store.deliver()
        new, self.heard = self.service.taken[self.heard :], len(self.service.taken)
        return [Incoming(body=msgspec.json.encode(one.body), headers=one.headers, received_at=START) for one in new]

    async def process(self, incoming: Incoming) -> list[str]:
        """From the raw push to what is told."""
        taken = await self.google.verify(self.app, incoming)
        return await self.life.take(await self.google.read(self.app, taken.payload))

    async def restore(self, token: str) -> list[str]:
        """As a phone does it."""
        return await self.life.take(await self.google.read_receipt(self.app, AppReceipt(token=token)))


@contextlib.asynccontextmanager
async def connected(keys: GoogleKeys) -> AsyncIterator[Connection]:
    store = GoogleEmulator(
        keys, App(package_name="com.example.notes"), Books(series="tests"), Clock(starts_at=START, ticks=False)
    )

    def now() -> int:
        return time.time_ns() // 1_000_000

    async with receiving() as service, running(store) as served:
        store.notification_url = service.url
        google = GoogleAdapter(now, StoreHttp("Google", now))
        credentials = google.parse_credentials(store.credentials(served.base_url), frozenset({"127.0.0.1"}))
        app = ConnectedApp(project_id="proj", app_id="app", store="play_store", credentials=credentials, version=1)
        try:
            await google.check_credentials(app)
            yield Connection(store, service, google, app, Life(google, app, store.clock.now))
        finally:
            await google.close()


LIES = sorted(GoogleEmulator.lies)


async def test_every_lie_is_seen_through(emulator_keys: GoogleKeys) -> None:
    async with connected(emulator_keys) as play:
        for lie in LIES:
            play.store.misbehave(lie=1.0, lies=[lie])
            play.store.sell(product_id="pro_monthly:monthly", buyer=lie)
            [incoming] = await play.arrived()
            with pytest.raises(Misdirected if lie in ("audience", "package") else NotAuthentic):
                await play.google.verify(play.app, incoming)


async def test_a_purchase_is_acknowledged(emulator_keys: GoogleKeys) -> None:
    async with connected(emulator_keys) as play:
        for product, subscription in (
            ("pro_monthly:monthly", True),
            ("pro_monthly:prepaid", False),
            ("coins_100", False),
        ):
            token = play.store.sell(product_id=product, buyer=product)
            await play.google.acknowledge(play.app, token, product, subscription=subscription)
            await play.google.acknowledge(play.app, token, product, subscription=subscription)
            assert play.store.known(token).acknowledged


ACTS: tuple[tuple[str, dict[str, object]], ...] = (
    ("cancel", {}),
    ("cancel", {"by": "developer"}),
    ("uncancel", {}),
    ("fail_billing", {"grace_days": 3}),
    ("fail_billing", {"grace_days": 0, "hold_days": 10}),
    ("recover", {}),
    ("pause", {"for": "P14D"}),
    ("resume", {}),
    ("defer", {"days": 5}),
    ("refund", {}),
    ("refund", {"revoke": False}),
    ("revoke", {}),
    ("change", {"product_id": "team_monthly:monthly"}),
    ("change", {"product_id": "pro_yearly:yearly"}),
    ("change", {"product_id": "basic_monthly:monthly", "deferred": True}),
    ("resubscribe", {}),
    ("top_up", {}),
    ("price_change", {}),
)
SALES: tuple[dict[str, object], ...] = (
    {"product_id": "pro_monthly:monthly", "trial": True},
    {"product_id": "pro_monthly:monthly"},
    {"product_id": "basic_monthly:monthly", "intro": True},
    {"product_id": "pro_monthly:prepaid"},
    {"product_id": "pro_lifetime"},
    {"product_id": "coins_100"},
)


@pytest.mark.parametrize("seed", range(4))
async def test_random_lives_end_as_the_store_has_them(emulator_keys: GoogleKeys, seed: int) -> None:
    """Notifications are lost, repeated and mixed up; the phone and the safety net read what was lost."""
    dice = random.Random(seed)
    async with connected(emulator_keys) as play:
        store = play.store
        tokens = [store.sell(buyer=f"buyer {n}", **sale) for n, sale in enumerate(SALES)]
        for token in tokens:
            store.acknowledge(token)
        acts: list[str] = []
        for _ in range(14):
            waiting = []
            for _ in range(dice.randint(1, 3)):
                acts.append(act_at_random(store, tokens, dice))
                await store.move(store.clock.now() + dice.choice((HOUR, DAY, 9 * DAY, 31 * DAY)))
                waiting += await play.arrived()
            waiting = [one for one in waiting if dice.random() > 0.25]
            waiting += [one for one in waiting if dice.random() < 0.2]
            dice.shuffle(waiting)
            for incoming in waiting:
                await play.process(incoming)
        for token in tokens:
            with contextlib.suppress(StoreError):
                await play.restore(token)
        for handle in list(play.life.ids):
            await play.life.read_again(handle)
        told = len(play.life.told)
        for handle in list(play.life.ids):
            await play.life.read_again(handle)
        assert len(play.life.told) == told, "reading again tells nothing"
        extended = [event for event in play.life.told.values() if event.type is EventType.SUBSCRIPTION_EXTENDED]
        # A cancellation in a grace period that was never heard of looks like an extension.
        assert len(extended) <= acts.count("defer") + acts.count("cancel")
        for truth in store.truth():
            if not truth.replaced and readable(truth, store.clock.now()):
                compare(play.life, truth)


def act_at_random(store: GoogleEmulator, tokens: list[str], dice: random.Random) -> str:
    """Something that the store lets happen to one of the purchases."""
    for _ in range(10):
        number = dice.randrange(len(tokens))
        act, options = dice.choice(ACTS)
        with contextlib.suppress(Refusal):
            tokens[number] = store.act(tokens[number], act, **options)
            store.acknowledge(tokens[number])
            return act
    return ""


def readable(truth: Truth, now: int) -> bool:
    """Google tells of a subscription for 60 days after its end."""
    return truth.kind == "one_time" or (truth.access_ends_at or now) + 59 * DAY > now


def compare(life: Life, truth: Truth) -> None:
    now = life.now()
    if truth.kind == "subscription":
        # A chain whose beginning was never heard of, and is too old to be read, begins with what is known.
        known = life.customer.subscription("play_store", life.ids[truth.purchase])
        assert known is not None
        assert (known.access_ends_at > now) is truth.active, truth
        assert known.current.refunded_at is not None or known.access_ends_at == truth.access_ends_at, truth
        assert known.current.refunded_at is None or truth.refunded_at is not None, truth
        assert (known.status.billing_issue_at is not None and known.status.ended is None) is truth.billing_problem
        assert known.current.product_id == truth.product_id
        if truth.active:
            assert known.status.auto_renew is truth.auto_renew
            assert (known.status.pause.resumes_at if known.status.pause else None) == truth.resumes_at
        assert len(known.periods) == len({one.id for one in known.periods})
        return
    held = [one for one in life.customer.purchases if one.product_id == truth.product_id]
    assert any((one.access_ends_at or now + 1) > now for one in held) is truth.active, truth
