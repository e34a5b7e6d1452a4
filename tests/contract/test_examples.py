"""The examples under contract/ are what the code answers, byte for byte.

The requests are sent at a fixed time with fixed ids; they include every success reply of the OpenAPI document.
After an intended change, `LATCHKEY_WRITE_EXAMPLES=1 python -m pytest tests/contract/test_examples.py` writes them
again; the diff shows what consumers will notice.
"""

import itertools
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from msgspec import json, structs

from latchkey.database.pool import Database
from latchkey.domain.catalog import ListedPrice, ProductType
from latchkey.domain.events.customer_event import Dialect, EventType
from latchkey.domain.instants import Duration
from latchkey.domain.money.amounts import Price
from latchkey.domain.stores.store_product import StoreProduct
from latchkey.http.openapi import stem
from latchkey.stores.apple.adapter import AppleAdapter
from latchkey.stores.stripe.adapter import StripeAdapter
from latchkey.subjects.purchase_intake.rules import NewEntry
from latchkey.subjects.purchase_intake.storage.connection_rows import note_notified
from latchkey.subjects.purchase_intake.usecases.journal import file_entries
from latchkey.subjects.request_log import storage as request_log
from latchkey.subjects.webhooks.delivery.event_body import body_of
from latchkey.subjects.webhooks.delivery.queue import requeue_runs as requeue
from latchkey.subjects.webhooks.delivery.sending.sender import Sender
from latchkey.subjects.webhooks.storage.lanes import AttemptResult
from latchkey.subjects.webhooks.usecases import registry
from latchkey.subjects.webhooks.usecases.samples import sample
from latchkey.wire.event import TEST_EVENT, Envelope
from tests.contract.ledger_story import look_up
from tests.contract.offerings_story import ASKS
from tests.contract.store_credentials import APPLE, STRIPE
from tests.contract.stories import administer, chart, export, list_customers, sell, sell_by_link
from tests.http.client import DAY, NOW, Client, Reply, Shop
from tests.http.doings import app_key
from tests.http.fixtures import opened
from tests.http.routes import Route, routes_of

CONTRACT = Path(__file__).parents[2] / "contract"
WRITE = os.environ.get("LATCHKEY_WRITE_EXAMPLES") == "1"
ANONYMOUS = "$RCAnonymousID:0123456789abcdef0123456789abcdef"
MONTHLY = {"app_user_id": "ada", "fetch_token": "test_1800000000123_0001", "product_id": "pro_monthly"}


def held(path: str, body: bytes) -> None:
    """Check that the file has exactly this content. With the variable set, write it first."""
    file = CONTRACT / path
    text = json.format(body, indent=2) + b"\n" if body else b""
    if WRITE:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text)
    assert file.exists(), f"contract/{path} is missing; LATCHKEY_WRITE_EXAMPLES=1 writes it"
    assert file.read_bytes().decode() == text.decode(), f"contract/{path} differs from what the code answers"


@pytest.mark.parametrize("type", EventType)
def test_every_event_is_as_its_example(type: EventType) -> None:
    held(f"events/{type}.json", json.encode(Envelope(event=sample(type, NOW, app_id="app_demo"))))


@pytest.mark.parametrize("type", EventType)
def test_every_event_in_the_vendors_dialect_is_as_its_example(type: EventType) -> None:
    event = json.encode(sample(type, NOW, app_id="app_demo"))
    held(f"events_revenuecat/{type}.json", body_of(event, Dialect.REVENUECAT))


@pytest.fixture
async def shop(database: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Shop]:
    """The shop, with counters instead of random ids: 1, 2, 3."""
    numbers, letters = itertools.count(1), itertools.count(1)

    def uuid() -> UUID:
        return UUID(int=(4 << 76) | (8 << 60) | next(numbers))

    monkeypatch.setattr("secrets.token_hex", lambda size: f"{next(numbers):0{2 * size}x}")
    urls = itertools.count(1)
    monkeypatch.setattr("secrets.token_urlsafe", lambda size: f"ExampleOfAUrlThatNobodyGuesses{next(urls):02}")
    monkeypatch.setattr("secrets.choice", lambda choices: choices[next(letters) * 7 // 5 % len(choices)])
    for module in ("test_store.api", "currencies.api", "webhooks.usecases.samples"):
        monkeypatch.setattr(f"latchkey.subjects.{module}.uuid4", uuid)
    monkeypatch.setattr(requeue, "uuid4", uuid)
    monkeypatch.setattr("latchkey.subjects.segments.usecases.customer_lists.uuid4", lambda: UUID(int=7 << 96))
    monkeypatch.setattr("latchkey.subjects.bulk_grants.usecases.uuid4", lambda: UUID(int=9 << 96))
    # A separate counter, so that one more customer does not change every other example.
    records = itertools.count(1)
    monkeypatch.setattr("latchkey.engine.unit_of_work.uuid4", lambda: UUID(int=next(records)))
    monkeypatch.setattr(registry, "new_secret", lambda: "whsec_ZXhhbXBsZSBzZWNyZXQgb2YgMjQgYg==")
    async with opened(database) as shop:
        await settle_uses(shop)
        # Request ids would use the counter too; a fixed one keeps the other ids stable.
        shop.client = Named(shop.client.app, shop.client.key, shop.client.public)
        yield shop


async def settle_uses(shop: Shop) -> None:
    """When the keys were last used: one fixed moment, whatever the story does and however long it takes."""
    front: Any = shop.client.app
    front.requests.every = 1e6
    async with shop.database.acquire() as connection:
        keys = await connection.fetch("select id, project_id from api_keys")
        await request_log.note_uses(connection, {key["id"]: NOW - 60_000 for key in keys})


class Named(Client):
    async def request(self, method: str, path: str, **options: Any) -> Reply:
        options["headers"] = {"x-request-id": "example", **(options.get("headers") or {})}
        return await super().request(method, path, **options)


class Story:
    """Sends requests one after the other; each reply is the example of its route and status."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self._routes = {route.name: route for route in routes_of(shop)}
        self.seen: set[tuple[str, int]] = set()
        self.files: set[str] = set()
        self.names: dict[str, str] = {}

    async def ask(
        self,
        name: str,
        body: Any = None,
        *,
        query: str = "",
        key: str | None = "",
        also: str = "",
        shape: str = "",
        **names: str,
    ) -> Any:
        route = self._routes[name]
        reply = await self._shop.client.request(
            route.method,
            route.path({**self.names, **names}) + query,
            body=json.encode(body) if body is not None else b"",
            key=key,
            headers={"latchkey-shape": shape} if shape else None,
        )
        file = file_of(route, reply.status, also)
        assert file not in self.files, f"{file} has two examples"
        held(file, reply.body)
        self.files.add(file)
        self.seen.add((name, reply.status))
        return reply.json() if reply.body else None

    @property
    def promised(self) -> set[tuple[str, int]]:
        return {
            (name, int(status))
            for name, route in self._routes.items()
            for status in route.operation["responses"]
            # 204 has no body.
            if status.startswith("2") and status != "204"
        }


def file_of(route: Route, status: int, also: str) -> str:
    return f"{stem(route.template, route.method, str(status))}{also}.json"


async def test_every_reply_is_as_its_example(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    async def received(*_: object, is_test: bool = False) -> AttemptResult:
        marked = {TEST_EVENT: "true"} if is_test else {}
        shown = {**json.decode(ANSWER.request_headers), **marked}
        return structs.replace(ANSWER, request_headers=json.encode(shown))

    async def accepted(*_: object) -> None: ...

    monkeypatch.setattr(Sender, "send", received)
    monkeypatch.setattr(AppleAdapter, "check_credentials", accepted)
    monkeypatch.setattr(StripeAdapter, "check_credentials", accepted)

    async def products(*_: object) -> tuple[StoreProduct, ...]:
        prices = (
            ListedPrice(Price(12_990_000, "USD"), country="US"),
            ListedPrice(Price(10_990_000, "EUR"), country="DE"),
        )
        week, kind = Duration(days=7), ProductType.SUBSCRIPTION
        known = StoreProduct(id="pro_monthly", name="Pro", type=kind, duration=Duration(1), trial=week, prices=prices)
        return known, structs.replace(known, id="gold", name="Gold", offers=("introductory: $0.99 for 1 month",))

    monkeypatch.setattr(AppleAdapter, "products", products)
    story = Story(shop)
    await configure(story)
    await live(story, shop)
    await operate(story)
    await refuse(story, shop)
    await connect(story, shop)
    await offer(story)
    await look_up(story, shop)
    await chart(story.ask, shop)
    await list_customers(story.ask, shop)
    await clear(story)
    await administer(story.ask, shop)
    await sell(story.ask, shop)
    await export(story.ask, shop)
    await connect_to_stripe(story, shop)
    # At the end: its new id would change every later example.
    own = (await shop.client.get("/v2/projects/proj_demo/api_keys")).json()["items"][0]["id"]
    await story.ask("POST /api_keys/{key_id}/actions/rotate", {"overlap_days": 7}, key_id=own)
    config = {"entitlements": {"max": {}}, "products": {"pro_monthly": {"entitlement_ids": ["max", "pro"]}}}
    await story.ask("GET /config")
    await story.ask("POST /config/plan", {"config": config})
    await story.ask("POST /config/apply", {"config": config})
    await sell_by_link(story.ask, shop)
    assert story.promised <= story.seen, story.promised - story.seen
    told = {f"{folder}/{type}.json" for folder in ("events", "events_revenuecat") for type in EventType}
    there = {path.relative_to(CONTRACT).as_posix() for path in CONTRACT.rglob("*.json")}
    assert there - told == story.files, "there is an example that no request produces any more"


ANSWER = AttemptResult(
    at=NOW,
    took_ms=12,
    status=200,
    error=None,
    request_headers=b'{"content-type":"application/json","authorization":"Bearer ***"}',
    response_headers=b'[["content-type","application/json"]]',
    response_body=b'{"message":"ok"}',
)
HOOK = "/integrations/webhooks"


async def configure(story: Story) -> None:
    """The operator sets up a project."""
    await story.ask("GET ")
    await story.ask("PATCH ", {"restore_behavior": "transfer"})
    program = {"store": "app_store", "program": "small_business", "from": "2026-01-01"}
    percentages = {"from": "2026-01-01", "country": "DE", "tax_rate": 0.19}
    await story.ask("POST /money", {"programs": [program], "percentages": [percentages]})
    await story.ask("GET /money")
    await story.ask("POST /entitlements", {"id": "max", "display_name": "Max"})
    await story.ask("GET /entitlements")
    await story.ask("GET /entitlements/{entitlement_id}", entitlement_id="max")
    await story.ask("POST /entitlements/{entitlement_id}", {"display_name": "Maximum"}, entitlement_id="max")
    await story.ask("PATCH /entitlements/{entitlement_id}", {"display_name": "Max"}, entitlement_id="max")
    new = {"id": "max_weekly", "kind": "subscription", "duration": "P1W", "trial_duration": "P3D"}
    await story.ask("POST /products", {**new, "display_name": "Max, weekly", "price": 4.99, "currency": "EUR"})
    await story.ask("GET /products", query="?limit=3")
    await story.ask("GET /products/{product_id}", product_id="max_weekly")
    await story.ask("POST /products/{product_id}", {"price": 3.99}, product_id="max_weekly")
    await story.ask("PATCH /products/{product_id}", {"trial_duration": None}, product_id="max_weekly")
    euros = {"price": 4.49, "currency": "EUR", "country": "DE"}
    await story.ask("PUT /products/{product_id}/prices", euros, product_id="max_weekly")
    await story.ask("GET /products/{product_id}/prices", product_id="max_weekly")
    await story.ask("DELETE /products/{product_id}/prices/{price_id}", product_id="max_weekly", price_id="-.DE.EUR")
    named = {"product_ids": ["max_weekly"]}
    await story.ask("POST /entitlements/{entitlement_id}/actions/attach_products", named, entitlement_id="max")
    await story.ask("GET /entitlements/{entitlement_id}/products", entitlement_id="max")
    await story.ask("POST /virtual_currencies", {"code": "GEM", "name": "Gems", "description": "Shiny"})
    await story.ask("GET /virtual_currencies")
    await story.ask("GET /virtual_currencies/{code}", code="GEM")
    await story.ask("POST /virtual_currencies/{code}", {"name": "Jewels"}, code="GEM")
    await story.ask("PATCH /virtual_currencies/{code}", {"name": "Gems"}, code="GEM")
    app = await story.ask(
        "POST /apps", {"name": "Mobile", "type": "app_store", "app_store": {"bundle_id": "com.example.app"}}
    )
    await story.ask("GET /apps")
    await story.ask("GET /apps/{app_id}", app_id=app["id"])
    await story.ask("POST /apps/{app_id}", {"name": "Phone"}, app_id=app["id"])
    bundle = {"app_store": {"bundle_id": "com.example.phone"}}
    await story.ask("PATCH /apps/{app_id}", bundle, app_id=app["id"])
    public = await story.ask("POST /apps/{app_id}/public_api_keys", {"name": "beta"}, app_id=app["id"])
    await story.ask("GET /apps/{app_id}/public_api_keys", app_id=app["id"])
    await story.ask("DELETE /apps/{app_id}/public_api_keys/{key_id}", app_id=app["id"], key_id=public["id"])
    key = await story.ask("POST /api_keys", {"name": "reports", "scopes": ["read"]})
    await story.ask("GET /api_keys")
    rules = {"expires_at": NOW + 90 * DAY, "allowed_networks": ["203.0.113.7", "2001:db8::/32"]}
    await story.ask("POST /api_keys/{key_id}", rules, key_id=key["id"])
    await story.ask("PATCH /api_keys/{key_id}", {"name": "nightly reports"}, key_id=key["id"])
    await story.ask("DELETE /api_keys/{key_id}", key_id=key["id"])
    await story.ask("DELETE /apps/{app_id}", app_id=app["id"])
    variants = [{"id": "control", "weight": 1}, {"id": "b", "weight": 1}]
    made = await story.ask("POST /experiments", {"name": "Prices", "variants": variants})
    await story.ask("GET /experiments")
    await story.ask("GET /experiments/{experiment_id}", experiment_id=made["id"])
    story.names["experiment_id"] = made["id"]
    hook = {"name": "Shop", "url": "https://93.184.215.14/webhooks/billing", "authorization_header": "Bearer s3cret"}
    story.names["webhook_id"] = (await story.ask(f"POST {HOOK}", hook))["id"]
    await story.ask("GET /integrations/destinations")
    slack = {"preset": "slack", "settings": {"webhook_url": "https://hooks.slack.com/services/T0/B0/secret"}}
    await story.ask("POST /integrations/destinations/preview", slack)
    await story.ask(f"GET {HOOK}")
    await story.ask(f"GET {HOOK}/{{webhook_id}}")
    await story.ask(f"POST {HOOK}/{{webhook_id}}", {"event_types": ["RENEWAL", "EXPIRATION"]})
    await story.ask(f"PATCH {HOOK}/{{webhook_id}}", {"event_types": []})


async def connect_to_stripe(story: Story, shop: Shop) -> None:
    # The story of the checkout has put a provider of its own in its place.
    front: Any = shop.client.app
    front.services.stores.adapters = {**front.services.stores.adapters, "stripe": StripeAdapter(lambda: NOW)}
    made = await shop.client.post(f"/v2/projects/{shop.project_id}/apps", {"name": "Web", "store": "stripe"})
    await story.ask("PUT /apps/{app_id}/credentials", STRIPE, app_id=made.json()["id"], also=".stripe")


async def connect(story: Story, shop: Shop) -> None:
    """The operator connects an app to its store, and looks at what the store sent."""
    made = await shop.client.post(f"/v2/projects/{shop.project_id}/apps", {"name": "Notes", "store": "app_store"})
    id = made.json()["id"]
    credentials = "/apps/{app_id}/credentials"
    await story.ask(f"GET {credentials}", app_id=id, also=".none")
    await story.ask(f"PUT {credentials}", APPLE, app_id=id)
    await file_entries(shop.database, [notification(shop, id)])
    async with shop.database.acquire() as connection:
        await note_notified(connection, shop.project_id, id, NOW)
    await story.ask(f"GET {credentials}", app_id=id)
    await story.ask(f"POST {credentials}/check", app_id=id)
    await story.ask("GET /apps/{app_id}/store_products", app_id=id)
    await story.ask("POST /apps/{app_id}/store_products/actions/take_over", {"product_ids": ["gold"]}, app_id=id)
    await shop.client.request("DELETE", f"/v2/projects/{shop.project_id}/products/gold")
    await story.ask(f"POST {credentials}/rotate_notification_url", app_id=id)
    listed = await story.ask("GET /store_notifications")
    story.names["notification_id"] = listed["items"][0]["id"]
    await story.ask("GET /store_notifications/{notification_id}")
    await story.ask("POST /store_notifications/{notification_id}/reprocess")
    await story.ask("POST /store_notifications/reprocess", {"since_ms": NOW - DAY, "status": "failed", "app_id": id})
    await story.ask(f"DELETE {credentials}", app_id=id)
    await shop.client.request("DELETE", f"/v2/projects/{shop.project_id}/apps/{id}")


def notification(shop: Shop, app_id: str) -> NewEntry:
    return NewEntry(
        project_id=shop.project_id,
        app_id=app_id,
        store="app_store",
        source="notification",
        external_id="e4d93b06-6f6e-4a5c-9a4f-2d1a0a1f0001",
        kind="DID_RENEW",
        environment="PRODUCTION",
        subject="2000000123456789",
        occurred_at=NOW - 1_500,
        received_at=NOW,
        checked={"signature": "signed by Apple", "bundle_id": "com.example.notes"},
        payload="eyJhbGciOiJFUzI1NiJ9.e30.c2lnbmF0dXJl",
        next_at=NOW,
    )


async def live(story: Story, shop: Shop) -> None:
    """Apps buy, log in and set attributes."""
    public = shop.public
    await story.ask("GET /v1/subscribers/{app_user_id}", key=public, app_user_id="eve")
    await story.ask("GET /v1/subscribers/{app_user_id}", key=public, also=".public", app_user_id="eve")
    await story.ask("POST /v1/receipts", {**MONTHLY, "app_user_id": ANONYMOUS}, key=public)
    wrong = {"$email": {"value": "nobody", "updated_at_ms": NOW}, "plan": {"value": "x", "updated_at_ms": 0}}
    again = {**MONTHLY, "app_user_id": ANONYMOUS, "attributes": wrong}
    await story.ask("POST /v1/receipts", again, key=public, also=".attribute_errors")
    await story.ask("POST /v1/subscribers/identify", {"app_user_id": ANONYMOUS, "new_app_user_id": "ada"})
    await story.ask("POST /v1/subscribers/identify", {"app_user_id": ANONYMOUS, "new_app_user_id": "ada"})
    noted = {"$email": {"value": "ada@example.com", "updated_at_ms": NOW}}
    await story.ask("POST /v1/subscribers/{app_user_id}/attributes", {"attributes": noted})
    entitlement = "/v1/subscribers/{app_user_id}/entitlements/{entitlement_id}"
    await story.ask(f"POST {entitlement}/promotional", {"duration": "monthly"}, entitlement_id="team")
    await story.ask(f"POST {entitlement}/revoke_promotionals", entitlement_id="team")
    subscription = "/v1/subscribers/{app_user_id}/subscriptions/{product_id}"
    await story.ask(f"POST {subscription}/defer", {"extend_by_days": 3})
    await story.ask("POST /experiments/{experiment_id}/enroll", {"app_user_id": "ada"})
    action = {"action": "purchase", "app_user_id": "ada", "product_id": "coins_100"}
    await story.ask("POST /test_store/actions", action)
    await story.ask("GET /v1/subscribers/{app_user_id}/virtual_currencies")
    await story.ask("GET /v1/subscribers/{app_user_id}/offerings", key=public)
    products = "GET /rcbilling/v1/subscribers/{app_user_id}/products"
    await story.ask(products, key=public, query="?id=pro_monthly&id=coins_100&id=lifetime&id=no_such")
    await story.ask("GET /v1/product_entitlement_mapping", key=public)
    subscriber = "POST /v1/subscribers/{app_user_id}"
    await story.ask(f"{subscriber}/alias", {"new_app_user_id": "ada"}, key=public, app_user_id=ANONYMOUS)
    await story.ask(f"{subscriber}/restore/eligibility", {"fetch_token": MONTHLY["fetch_token"]}, key=public)
    asked = {"product_identifiers": ["pro_monthly", "team_yearly", "no_such"]}
    await story.ask(f"{subscriber}/intro_eligibility", asked, key=public)
    offers = {"app_user_id": "ada", "generate_offers": [{"offer_id": "half", "product_id": "pro_monthly"}]}
    await story.ask("POST /v1/offers", offers, key=public)
    await story.ask("POST /v1/events", {"events": []}, key=public)
    await story.ask("POST /v1/diagnostics", {"entries": []}, key=public)
    await story.ask(f"{subscriber}/attribution", {"data": {"rc_idfa": "x"}, "network": "1"}, key=public)
    await story.ask(f"{subscriber}/adservices_attribution", {"aad_attribution_token": "x"}, key=public)
    await story.ask("GET /v1/health", key=None)
    await story.ask("GET /v1/subscribers/{app_user_id}/health_report_availability", key=None)
    await story.ask("GET /v1/subscribers/{app_user_id}")
    customer = "/customers/{customer_id}"
    await story.ask(f"GET {customer}")
    await story.ask(f"GET {customer}/active_entitlements")
    await story.ask(f"GET {customer}/attributes")
    changes = [{"name": "plan", "value": "annual"}, {"name": "$displayName", "value": None}]
    await story.ask(f"POST {customer}/attributes", {"attributes": changes})
    await story.ask(f"GET {customer}/aliases")
    await story.ask(f"GET {customer}/virtual_currencies")
    await story.ask(f"POST {customer}/virtual_currencies/transactions", {"adjustments": {"COIN": -40, "GEM": 3}})
    again = {"adjustments": {"GEM": 2}, "reference": "apology 17"}
    await story.ask(f"POST {customer}/virtual_currencies/update_balance", again)
    await story.ask(f"GET {customer}/events", query="?limit=2")
    await story.ask(f"GET {customer}/entitlements/{{entitlement_id}}/explanation")
    await story.ask(f"POST {subscription}/revoke")
    await story.ask(f"GET {customer}/entitlements/{{entitlement_id}}/explanation", also=".refunded")


async def operate(story: Story) -> None:
    """The operator looks at clocks, customers and deliveries."""
    clock = await story.ask("POST /test_clocks", {"name": "A year in a second", "now_ms": NOW - 30 * DAY})
    story.names["test_clock_id"] = clock["id"]
    await story.ask("GET /test_clocks")
    await story.ask("GET /test_clocks/{test_clock_id}")
    await story.ask("POST /customers", {"id": "tess", "test_clock_id": clock["id"]})
    await story.ask("POST /test_clocks/{test_clock_id}/advance", {"by": "P1M"})
    await story.ask("POST /customers", {"id": "bob"}, also=".plain")
    await story.ask("GET /customers")
    await story.ask("GET /customers", query="?search=ada%40example.com", also=".search")
    grant = {"entitlement_id": "team", "expires_at": NOW + DAY}
    await story.ask("POST /customers/{customer_id}/actions/grant_entitlement", grant)
    revoked = {"entitlement_id": "team"}
    await story.ask("POST /customers/{customer_id}/actions/revoke_granted_entitlement", revoked)
    await story.ask("POST /customers/{customer_id}/actions/transfer", {"target_customer_id": "bob"})
    await story.ask("GET /events", query="?limit=3")
    await story.ask("GET /operational_events")
    await story.ask(f"POST {HOOK}/{{webhook_id}}/rotate_signing_secret", {"overlap_seconds": 3600})
    deliveries = await story.ask(f"GET {HOOK}/{{webhook_id}}/deliveries", query="?limit=2")
    delivery = deliveries["items"][0]["id"]
    await story.ask(f"GET {HOOK}/{{webhook_id}}/deliveries/{{delivery_id}}", delivery_id=delivery)
    await story.ask(f"POST {HOOK}/{{webhook_id}}/deliveries/{{delivery_id}}/resend", delivery_id=delivery)
    replay = await story.ask(f"POST {HOOK}/{{webhook_id}}/replay", {"since_ms": NOW - DAY, "status": "failed"})
    await story.ask(f"GET {HOOK}/{{webhook_id}}/replays/{{replay_id}}", replay_id=replay["id"])
    await story.ask(f"POST {HOOK}/{{webhook_id}}/test", {"type": "RENEWAL"})


async def refuse(story: Story, shop: Shop) -> None:
    """One of each refusal, in both bodies."""
    receipt = "POST /v1/receipts"
    await story.ask(receipt, {**MONTHLY, "fetch_token": "none"}, key=shop.public, also=".invalid_receipt")
    await story.ask(receipt, {**MONTHLY, "app_user_id": "null"}, key=shop.public, also=".invalid_app_user_id")
    # A moment later, so that the demo's app stays the oldest one, which products name.
    shop.clock.now += 1
    appl = await app_key(shop, "app_store")
    shop.clock.now -= 1
    await story.ask(receipt, MONTHLY, key=appl, also=".test_token_of_another_store")
    await story.ask(receipt, {**MONTHLY, "fetch_token": "eyJhbGciOiJFUzI1NiJ9.e30.c2ln"}, key=appl)
    wrong = {"attributes": {"$email": {"value": "nobody", "updated_at_ms": NOW}}}
    await story.ask("POST /v1/subscribers/{app_user_id}/attributes", wrong)
    await story.ask("GET /v1/subscribers/{app_user_id}", key="sk_unknown")
    await story.ask("DELETE /v1/subscribers/{app_user_id}", app_user_id="nobody")
    await story.ask("DELETE /v1/subscribers/{app_user_id}", key=shop.public)
    await story.ask("GET /customers/{customer_id}", key="sk_unknown")
    await story.ask("GET /customers/{customer_id}", key=shop.public)
    await story.ask("GET /customers/{customer_id}", customer_id="nobody")
    await story.ask("POST /customers", {"id": "bob"})
    await story.ask("POST /customers", {"id": "undefined"})
    await story.ask("POST /test_store/actions", {"action": "renew", "app_user_id": "ada"})


async def offer(story: Story) -> None:
    """The operator puts products into offerings."""
    for name, body, query, made in ASKS:
        reply = await story.ask(name, body, query=query)
        if made:
            story.names[made] = reply["id"]


async def clear(story: Story) -> None:
    """Delete what was created."""
    await story.ask(f"DELETE {HOOK}/{{webhook_id}}")
    await story.ask("DELETE /customers/{customer_id}", customer_id="tess")
    await story.ask("DELETE /v1/subscribers/{app_user_id}")
    await story.ask("DELETE /test_clocks/{test_clock_id}")
    detached = {"product_ids": ["max_weekly"]}
    await story.ask("POST /entitlements/{entitlement_id}/actions/detach_products", detached, entitlement_id="max")
    await story.ask("DELETE /entitlements/{entitlement_id}", entitlement_id="max")
    await story.ask("DELETE /products/{product_id}", product_id="max_weekly")
    await story.ask("DELETE /virtual_currencies/{code}", code="GEM")
