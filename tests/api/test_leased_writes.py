"""Purchases with a busy key: a lease covers them, and the statement that looks at the customer checks the key."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from bench.tap import Tap
from latchkey.now import real_now
from latchkey.storage.database import Database
from latchkey.usecases.access.keys import ApiKey, KeyChange, change_key, create_secret_key, revoke_key
from tests.api.client import DAY, NOW, Reply, Shop
from tests.api.conftest import opened
from tests.databases import DemoShelf


@dataclass
class Busy:
    shop: Shop
    tap: Tap
    key: str
    key_id: str
    count: int = 0

    async def buy(self, **more: str) -> tuple[Reply, int]:
        """A purchase of somebody new, and how many round trips it took."""
        self.count += 1
        before = len(self.tap.trips)
        body = {"action": "purchase", "app_user_id": f"user{self.count}", "product_id": "pro_monthly", **more}
        path = f"/v2/projects/{self.shop.project_id}/test_store/actions"
        reply = await self.shop.client.post(path, body, key=self.key)
        return reply, len(self.tap.trips) - before

    async def until_leased(self) -> None:
        """A lease lasts half a second at most, so this may be needed before each request."""
        for _ in range(2000):
            reply, trips = await self.buy()
            assert reply.status == 200, reply
            if trips == 2:
                return
        raise AssertionError("no purchase took two round trips")


@pytest.fixture
async def busy(demo_shelf: DemoShelf) -> AsyncIterator[Busy]:
    async with (
        demo_shelf.shelf.lend() as database,
        Tap(database.url) as tap,
        Database(tap.url) as counted,
        opened(counted, demo_shelf.demo) as shop,
    ):
        made = await create_secret_key(database, shop.project_id, "busy", real_now(), rate_limit=1_000_000)
        yield Busy(shop, tap, made.plaintext, made.key.id)


async def test_a_purchase_that_a_lease_covers_takes_two_round_trips(busy: Busy) -> None:
    await busy.until_leased()
    assert await busy.shop.database.pool.fetchval("select count(*) from events") == busy.count


async def test_a_revoked_key_is_refused_at_once_and_buys_nothing(busy: Busy) -> None:
    await busy.until_leased()
    await revoke_key(busy.shop.database, busy.shop.project_id, busy.key_id, real_now())
    bought = busy.count
    for _ in range(3):
        reply, _ = await busy.buy()
        assert reply.status == 401, reply
    assert await busy.shop.database.pool.fetchval("select count(*) from events") == bought


@pytest.mark.parametrize(
    "rules", [{"expires_at": NOW + DAY}, {"allowed_networks": ["127.0.0.1"]}], ids=["time", "place"]
)
async def test_a_lease_does_not_outlive_the_keys_rules(busy: Busy, rules: dict[str, Any]) -> None:
    wanted = {"expires_at": None, "allowed_networks": (), **rules}

    def change(key: ApiKey) -> KeyChange:
        return KeyChange(name=key.name, rate_limit=key.rate_limit, **wanted)

    await change_key(busy.shop.database, busy.shop.project_id, busy.key_id, change, NOW)
    await busy.until_leased()
    bought = busy.count
    # Nothing changes in the database: the process must notice by itself.
    busy.shop.clock.now += DAY
    busy.shop.client.address = "203.0.113.9"
    for _ in range(3):
        reply, _ = await busy.buy()
        refused = 401 if "expires_at" in rules else 403
        assert reply.status == refused, reply
        assert (await busy.shop.v2("user1", key=busy.key)).status == refused
    assert await busy.shop.database.pool.fetchval("select count(*) from events") == bought
    busy.shop.clock.now -= DAY
    busy.shop.client.address = "127.0.0.1"
    await busy.until_leased()


async def test_a_refused_purchase_says_why(busy: Busy) -> None:
    await busy.until_leased()
    reply, _ = await busy.buy(product_id="nothing")
    assert reply.status == 404, reply
    reply, _ = await busy.buy(app_user_id="user1")
    assert reply.status == 422, reply
