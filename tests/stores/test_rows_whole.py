"""Every row of the stores' tables through the whole service: the raw signed payload over HTTP, sent twice; the
journal; the events that a webhook receives; and both read APIs.

`test_table.py` of each store has the details of each row, and every order of three neighbours."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from msgspec import json

from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms, to_iso
from latchkey.emulators.apple.certificates import Chain, make_chain
from latchkey.emulators.google.keys import Keys, generate
from latchkey.stores.apple.adapter import AppleAdapter
from latchkey.stores.google.adapter import GoogleAdapter
from latchkey.stores.stripe.adapter import StripeAdapter
from latchkey.usecases.access import keys as api_keys
from latchkey.usecases.access import projects
from latchkey.usecases.engine.clock import pass_time
from latchkey.usecases.services import Services
from tests.api.apple import processor
from tests.api.receiving import Post, delivering, posting
from tests.databases import Shelf
from tests.patience import until
from tests.stores.apple.app_store import connected, given_credentials, incoming
from tests.stores.apple.rows import ROWS as APPLE_ROWS
from tests.stores.apple.rows import Row
from tests.stores.apple.story import Story, Told, day
from tests.stores.google.play import AUDIENCE, HOST, PUSHER, Play, given, pushed
from tests.stores.google.test_table import ROWS as GOOGLE_ROWS
from tests.stores.google.test_table import Step
from tests.stores.stripe import account
from tests.stores.stripe.shop import Shop
from tests.stores.stripe.steps import Step as StripeStep
from tests.stores.stripe.test_table import ROWS as STRIPE_ROWS

pytestmark = pytest.mark.thorough

# What the rows sell. A product of Google's stands for all its base plans, one of Stripe's for all its prices.
SUBSCRIPTIONS = {
    "app_store": ("monthly", "yearly", "basic"),
    "play_store": ("pro", "max", "basic"),
    "stripe": ("prod_pro", "prod_max", "prod_basic", "prod_extra"),
}
ONE_TIME = {"app_store": "coins", "play_store": "coins", "stripe": "prod_coins"}
# Apple's API: nobody listens there. The rows say everything themselves.
NOWHERE = "http://127.0.0.1:1"


@pytest.fixture(scope="module")
async def post(shelf: Shelf, short_folder: Path) -> AsyncIterator[Post]:
    async with shelf.lend() as database, posting(database, short_folder) as post, delivering(post):
        yield post


@pytest.fixture(scope="module")
def chain() -> Chain:
    return make_chain()


@pytest.fixture(scope="module")
def google_keys() -> Keys:
    return generate()


@dataclass
class Place:
    """A project of its own, with a webhook and an app that is connected to its store."""

    post: Post
    project_id: str
    key: str
    app_id: str
    url: str
    # So many had arrived before.
    arrived: int

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        raw = b"" if body is None else json.encode(body)
        reply = await self.post.client.request(method, f"/v2/projects/{self.project_id}/{path}", key=self.key, body=raw)
        assert reply.status in (200, 201), reply
        return reply.json()

    async def hear(self, body: bytes, headers: Mapping[str, str], now: Ms) -> list[str]:
        """The store sends it twice. The types of the events that follow."""
        before = len(await self.events())
        self.post.clock.now = now
        for _ in range(2):
            reply = await self.post.client.request("POST", self.url, key=None, body=body, headers=headers)
            assert reply.status == 200, reply
        while await processor(self.post).process_due():
            pass
        while await pass_time(self.post.database, self.post.changes.catalogs, now):
            pass
        return [event["type"] for event in (await self.events())[before:]]

    async def events(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = (await self.ask("GET", "events?limit=100"))["items"]
        return items

    async def check(self, heard: int, access: bool) -> None:
        """The journal has each notification once, the webhook received every event, both APIs say the same."""
        entries = (await self.ask("GET", "store_notifications?limit=100"))["items"]
        assert [entry["status"] for entry in entries if entry["status"] not in ("applied", "ignored")] == []
        assert len(entries) == heard
        events = await self.events()

        async def arrived() -> bool:
            return len(self.received()) == len(events)

        await until(arrived, "an event was not delivered")
        assert sorted(self.received().values(), key=lambda event: event["sequence"]) == events
        for customer in (await self.ask("GET", "customers"))["items"]:
            now = to_iso(self.post.clock.now)
            active = (await self.ask("GET", f"customers/{customer['id']}"))["active_entitlements"]["items"]
            assert bool(active) is access
            reply = await self.post.client.get(f"/v1/subscribers/{customer['id']}", key=self.key)
            pro = reply.json()["subscriber"]["entitlements"].get("pro")
            ends = [pro["expires_date"], pro["grace_period_expires_date"]] if pro is not None else [""]
            assert (ends[0] is None or any(end is not None and end > now for end in ends)) is access

    def received(self) -> dict[str, dict[str, Any]]:
        told = [json.decode(arrival.body)["event"] for arrival in self.post.arrivals[self.arrived :]]
        return {event["id"]: event for event in told if event["app_id"] == self.app_id}


async def place(post: Post, store: str, credentials: Mapping[str, Any], now: Ms) -> Place:
    post.clock.now = now
    project = await projects.create_project(post.database, "Rows", now)
    key = await api_keys.create_secret_key(post.database, project.id, "Rows", now, rate_limit=api_keys.FASTEST)
    app = await projects.create_app(post.database, project.id, "Rows", store, now)
    made = Place(post, project.id, key.plaintext, app.id, "", len(post.arrivals))
    await made.ask("POST", "entitlements", {"id": "pro", "display_name": "Pro"})
    price = {"price": 4.99, "currency": "USD"}
    for id in SUBSCRIPTIONS[store]:
        await made.ask("POST", "products", {"id": id, "kind": "subscription", "duration": "P1M", **price})
    await made.ask("POST", "products", {"id": ONE_TIME[store], "kind": "one_time", **price})
    attached = {"product_ids": [*SUBSCRIPTIONS[store], ONE_TIME[store]]}
    await made.ask("POST", "entitlements/pro/actions/attach_products", attached)
    await made.ask("POST", "integrations/webhooks", {"name": "Rows", "url": f"{post.address}/"})
    saved = await made.ask("PUT", f"apps/{app.id}/credentials", credentials)
    made.url = urlsplit(saved["notification_url"]).path
    return made


def has_access(customer: Customer, now: Ms) -> bool:
    ends = [one.access_ends_at for one in customer.subscriptions]
    ends += [one.access_ends_at or now + 1 for one in customer.purchases]
    return any(end > now for end in ends)


@pytest.mark.parametrize("row", APPLE_ROWS, ids=lambda row: row.name)
async def test_a_row_of_apple(post: Post, chain: Chain, row: Row) -> None:
    here = await place(post, "app_store", given_credentials(chain, api_base_url=NOWHERE), day(0))
    adapter = AppleAdapter(lambda: day(0))
    story, told = Story(adapter, connected(adapter, chain), chain), []
    heard: list[tuple[Told, float | None]] = [*((one, None) for one in row.before), (row.told, row.on)]
    for one, on in heard:
        payload = one(chain)
        await story.hears(one, on)
        now = payload["signedDate"] if on is None else day(on)
        told = await here.hear(incoming(chain.sign(payload)).body, {}, now)
    await adapter.close()
    # Sorted: where Apple was silent for months, the clock has told the end before Apple tells why.
    assert sorted(told) == sorted(type for type, _ in row.events)
    await here.check(len(heard), has_access(story.customer, post.clock.now))


@pytest.mark.parametrize(("steps", "wanted", "access"), GOOGLE_ROWS.values(), ids=GOOGLE_ROWS)
async def test_a_row_of_google(
    post: Post, google_keys: Keys, steps: list[Step], wanted: list[str], access: bool
) -> None:
    play = Play(google_keys)
    front: Any = post.client.app
    services: Services = front.services
    services.stores.adapters = {**services.stores.adapters, "play_store": GoogleAdapter(lambda: play.now, play)}
    services.stores.allowed_hosts = frozenset({HOST, "127.0.0.1"})
    here, told, numbers = await place(post, "play_store", given(google_keys), play.now), [], count(1)
    for happens, notification in steps:
        happens(play)
        bearer = "Bearer " + google_keys.push_token(AUDIENCE, PUSHER, int(time.time()))
        push = pushed(notification, bearer, str(next(numbers)))
        told = await here.hear(push.body, push.headers, play.now)
    assert sorted(told) == sorted(one.partition(" ")[0] for one in wanted)
    await here.check(len(steps), access)


@pytest.mark.parametrize(("steps", "wanted", "access"), STRIPE_ROWS.values(), ids=STRIPE_ROWS)
async def test_a_row_of_stripe(post: Post, steps: list[StripeStep], wanted: list[str], access: bool) -> None:
    shop = Shop()
    front: Any = post.client.app
    services: Services = front.services
    services.stores.adapters = {**services.stores.adapters, "stripe": StripeAdapter(lambda: shop.now, shop)}
    services.stores.allowed_hosts = frozenset({account.HOST})
    here, told = await place(post, "stripe", account.given(), shop.now), []
    for happens, type, about in steps:
        happens(shop)
        sent = account.sent(account.event(type, about(shop), shop.now))
        told = await here.hear(sent.body, sent.headers, shop.now)
    assert sorted(told) == sorted(one.partition(" ")[0] for one in wanted)
    await here.check(len(steps), access)
