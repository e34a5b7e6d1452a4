"""The Paddle example against a running Latchkey: signed webhooks in, access and events out."""

import hashlib
import hmac
import importlib
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import permutations
from types import ModuleType
from typing import Any

import pytest
from msgspec import json

from tests.databases import DemoShelf
from tests.http.client import DAY, NOW, Client, Reply, Shop, running
from tests.http.doings import unhurried
from tests.http.fixtures import opened
from tests.http.management import holds, walk
from tests.http.serving import serving
from tests.stores import loopback

SECRET, OLD_SECRET = "pdl_ntfset_new", "pdl_ntfset_old"
MONTH = 30 * DAY


def iso(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def item(**more: Any) -> dict[str, Any]:
    return {"price": {"id": "pri_monthly", "product_id": "pro_1", "trial_period": None}, "quantity": 1, **more}


def transaction(id: str, at: int, origin: str = "web", who: str = "ada", **more: Any) -> dict[str, Any]:
    return {
        "id": id,
        "status": "completed",
        "origin": origin,
        "subscription_id": f"sub_{who}",
        "custom_data": {"app_user_id": who},
        "currency_code": "EUR",
        "billed_at": iso(at),
        "billing_period": {"starts_at": iso(at), "ends_at": iso(at + MONTH)},
        "items": [item()],
        "details": {"totals": {"total": "999", "grand_total": "999", "tax": "160"}},
        **more,
    }


def subscription(at: int, status: str = "active", who: str = "ada", **more: Any) -> dict[str, Any]:
    return {
        "id": f"sub_{who}",
        "status": status,
        "custom_data": {"app_user_id": who},
        "current_billing_period": {"starts_at": iso(at), "ends_at": iso(at + MONTH)},
        "scheduled_change": None,
        "canceled_at": None,
        "items": [item(trial_dates=None)],
        **more,
    }


def event(type: str, at: int, data: dict[str, Any]) -> bytes:
    return json.encode({"event_id": f"evt_{at}", "event_type": type, "occurred_at": iso(at), "data": data})


@dataclass
class World:
    shop: Shop
    example: ModuleType
    client: Client
    # What Paddle answers, by transaction.
    transactions: dict[str, Any] = field(default_factory=dict)

    async def send(self, body: bytes, *, secret: str = SECRET, at: float | None = None) -> Reply:
        ts = str(int(time.time() if at is None else at))
        h1 = hmac.new(secret.encode(), f"{ts}:".encode() + body, hashlib.sha256).hexdigest()
        return await self.client.post("/paddle", headers={"paddle-signature": f"ts={ts};h1={h1}"}, body=body)

    async def outcome(self, type: str, at: int, data: dict[str, Any]) -> str:
        reply = await self.send(event(type, at, data))
        assert reply.status == 200, reply
        outcome: str = reply.json()["outcome"]
        return outcome

    async def events(self, who: str) -> list[str]:
        return [event["type"] for event in await walk(self.shop, f"customers/{who}/events?limit=100")]


@pytest.fixture(scope="module")
async def world(demo_shelf: DemoShelf) -> AsyncIterator[World]:
    transactions: dict[str, Any] = {}

    async def paddle(request: loopback.Request) -> loopback.Reply:
        assert request.headers["authorization"] == "Bearer pdl_key"
        found = transactions.get(request.path.rpartition("/")[2])
        return loopback.Reply.json({"data": found}) if found else loopback.Reply.json({"error": {}}, 404)

    async with (
        demo_shelf.shelf.lend() as database,
        opened(database, demo_shelf.demo) as shop,
        serving(shop.client.app) as address,
        loopback.serving(paddle) as paddle_address,
    ):
        await unhurried(shop)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {
                "PADDLE_WEBHOOK_SECRETS": f"{SECRET},{OLD_SECRET}",
                "PADDLE_API_URL": paddle_address,
                "PADDLE_API_KEY": "pdl_key",
                "PADDLE_PRODUCTS": '{"pri_monthly": "pro_monthly", "pri_lifetime": "pro_lifetime"}',
                "LATCHKEY_URL": address,
                "LATCHKEY_PROJECT": shop.project_id,
                "LATCHKEY_SECRET_KEY": shop.client.key or "",
            }.items():
                patch.setenv(name, value)
            patch.delitem(sys.modules, "examples.paddle.app", raising=False)
            example = importlib.import_module("examples.paddle.app")
        async with running(example.app):
            yield World(shop, example, Client(example.app), transactions)


async def test_a_life_from_the_trial_to_the_refund(world: World) -> None:
    who, shop = "eve", world.shop
    trial = {"starts_at": iso(NOW), "ends_at": iso(NOW + 7 * DAY)}
    trialing = subscription(NOW, "trialing", who, items=[item(trial_dates=trial)])
    assert await world.outcome("subscription.trialing", NOW, trialing) == "applied"
    free = transaction("txn_0", NOW, who=who, details={"totals": {"total": "0"}})
    free["items"][0]["price"]["trial_period"] = {"interval": "day", "frequency": 7}
    assert await world.outcome("transaction.completed", NOW, free) == "ignored"
    assert await holds(shop, who) == {"pro"}

    begins = NOW + 7 * DAY
    shop.clock.now = begins
    paid = transaction("txn_1", begins, "subscription_recurring", who)
    assert await world.outcome("transaction.completed", begins + 5, paid) == "applied"
    assert await world.outcome("subscription.activated", begins + 6, subscription(begins, who=who)) == "applied"
    cancel = {"action": "cancel", "effective_at": iso(begins + MONTH)}
    scheduled = subscription(begins, who=who, scheduled_change=cancel)
    assert await world.outcome("subscription.updated", begins + 7, scheduled) == "applied"
    refund = {"action": "refund", "status": "approved", "totals": {"total": "999"}, "updated_at": iso(begins + 9)}
    world.transactions["txn_1"] = {**paid, "adjustments": [refund]}
    pending = {"action": "refund", "status": "pending_approval", "transaction_id": "txn_1"}
    assert await world.outcome("adjustment.created", begins + 8, pending) == "ignored"
    assert await world.outcome("adjustment.updated", begins + 9, {**pending, "status": "approved"}) == "applied"
    assert await world.events(who) == ["TRIAL_STARTED", "INITIAL_PURCHASE", "CANCELLATION", "REFUND"]
    shop.clock.now = begins + 9
    assert await holds(shop, who) == set()
    shop.clock.now = NOW


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=lambda order: "".join(map(str, order)))
async def test_in_every_order_and_twice(world: World, order: tuple[int, ...]) -> None:
    who = "order_" + "".join(map(str, order))
    ends = {"action": "cancel", "effective_at": iso(NOW)}
    told = [
        event("transaction.completed", NOW, transaction(f"txn_{who}", NOW, who=who)),
        event("subscription.activated", NOW + 1, subscription(NOW, who=who)),
        event("subscription.updated", NOW + 2, subscription(NOW, who=who, scheduled_change=ends)),
    ]
    waiting = [told[index] for index in (*order, *order)]
    while waiting:
        body = waiting.pop(0)
        reply = await world.send(body)
        assert reply.status in (200, 503), reply
        if reply.status == 503:
            waiting.append(body)
    assert await world.events(who) == ["INITIAL_PURCHASE", "CANCELLATION"]


async def test_a_payment_that_fails_and_a_pause(world: World) -> None:
    await world.outcome("transaction.completed", NOW, transaction("txn_p", NOW, who="pat"))
    renewal = NOW + MONTH
    world.shop.clock.now = renewal + 5
    due = subscription(renewal, "past_due", "pat")
    assert await world.outcome("subscription.past_due", renewal + 1, due) == "applied"
    assert await world.outcome("subscription.updated", renewal + 2, due) == "applied"
    assert await holds(world.shop, "pat") == {"pro"}
    paid = transaction("txn_q", renewal, "subscription_recurring", "pat")
    assert await world.outcome("transaction.completed", renewal + 2, paid) == "applied"
    pause = {"action": "pause", "effective_at": iso(renewal + MONTH), "resume_at": iso(renewal + 2 * MONTH)}
    paused = subscription(renewal, who="pat", scheduled_change=pause)
    assert await world.outcome("subscription.updated", renewal + 3, paused) == "applied"
    assert await world.events("pat") == ["INITIAL_PURCHASE", "BILLING_ISSUE", "RENEWAL", "SUBSCRIPTION_PAUSED"]
    ended = subscription(renewal, "canceled", "pat", canceled_at=iso(renewal + 4))
    assert await world.outcome("subscription.canceled", renewal + 4, ended) == "applied"
    assert (await world.events("pat"))[-1] == "EXPIRATION"
    world.shop.clock.now = NOW


async def test_a_one_time_purchase(world: World) -> None:
    bought = transaction("txn_once", NOW, who="ona", subscription_id=None, billing_period=None, currency_code="JPY")
    bought["items"][0]["price"]["id"] = "pri_lifetime"
    assert await world.outcome("transaction.completed", NOW, bought) == "applied"
    assert await world.outcome("transaction.completed", NOW, bought) == "unchanged"
    (event,) = await walk(world.shop, "customers/ona/events")
    assert event["type"] == "NON_RENEWING_PURCHASE"
    assert (event["currency"], event["price_in_purchased_currency"]) == ("JPY", 999)


async def test_a_purchase_that_was_moved_stays_with_its_owner(world: World) -> None:
    await world.outcome("transaction.completed", NOW, transaction("txn_m", NOW, who="mae"))
    moved = {"target_customer_id": "max"}
    await world.shop.client.post(f"/v2/projects/{world.shop.project_id}/customers", {"id": "max"})
    path = f"/v2/projects/{world.shop.project_id}/customers/mae/actions/transfer"
    assert (await world.shop.client.post(path, moved)).status == 200
    cancel = {"action": "cancel", "effective_at": iso(NOW)}
    changed = subscription(NOW, who="mae", scheduled_change=cancel)
    assert await world.outcome("subscription.updated", NOW + 1, changed) == "applied"
    assert await holds(world.shop, "max") == {"pro"}


async def test_forged_and_old_signatures_are_refused(world: World) -> None:
    body = event("transaction.completed", NOW, transaction("txn_f", NOW, who="forger"))
    now = time.time()
    assert (await world.send(body, secret="guessed")).status == 401
    assert (await world.send(body, at=now - 301)).status == 401
    assert (await world.send(body, at=now + 301)).status == 401
    for header in (
        "",
        "ts=;h1=",
        f"ts={int(now)}",
        f"ts={int(now)};h1=é",
        "h1=00",
        "ts=²;h1=00",
        f"ts={'1' * 5000};h1=00",
    ):
        reply = await world.client.post("/paddle", headers={"paddle-signature": header}, body=body)
        assert reply.status == 401, header
    signed = await world.send(body, secret=OLD_SECRET)
    assert signed.status == 200
    # What was signed is the whole body.
    ts = str(int(now))
    h1 = hmac.new(SECRET.encode(), f"{ts}:".encode() + body, hashlib.sha256).hexdigest()
    more = await world.client.post("/paddle", headers={"paddle-signature": f"ts={ts};h1={h1}"}, body=body + b" ")
    assert more.status == 401


async def test_what_latchkey_refuses_is_sent_again_later(world: World) -> None:
    nobody = transaction("txn_n", NOW, custom_data=None, subscription_id="sub_nobody")
    assert (await world.send(event("transaction.completed", NOW, nobody))).status == 503
    lost = {"action": "refund", "status": "approved", "transaction_id": "txn_unknown"}
    assert (await world.send(event("adjustment.updated", NOW, lost))).status == 503
