"""Purchases with a busy key: a lease covers them, and the statement that looks at the customer checks the key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from latchkey.now import real_now
from latchkey.usecases.access.keys import ApiKey, KeyChange, change_key, create_secret_key, revoke_key
from latchkey.usecases.engine.leases import Leases
from tests.api.client import DAY, NOW, Reply, Shop
from tests.databases import hold_minute


@dataclass
class Busy:
    shop: Shop
    leases: Leases
    key: str
    key_id: str
    count: int = 0

    async def buy(self, **more: str) -> Reply:
        """A purchase of somebody new."""
        self.count += 1
        body = {"action": "purchase", "app_user_id": f"user{self.count}", "product_id": "pro_monthly", **more}
        path = f"/v2/projects/{self.shop.project_id}/test_store/actions"
        return await self.shop.client.post(path, body, key=self.key)

    async def until_leased(self) -> None:
        while not self.leases.held():
            reply = await self.buy()
            assert reply.status == 200, reply


@pytest.fixture
async def busy(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Busy:
    """Time stands still, so that a lease ends only when its requests are used up."""
    await hold_minute(shop.database)
    front: Any = shop.client.app
    leases: Leases = front.services.leases
    monkeypatch.setattr(leases, "clock", lambda: 100.0)
    monkeypatch.setattr(leases, "_watch", lambda *_: None)
    made = await create_secret_key(shop.database, shop.project_id, "busy", real_now(), rate_limit=1_000_000)
    return Busy(shop, leases, made.plaintext, made.key.id)


async def test_every_purchase_with_a_lease_and_without_is_recorded(busy: Busy) -> None:
    for _ in range(40):
        assert (await busy.buy()).status == 200
    assert busy.leases.held()
    assert await busy.shop.database.pool.fetchval("select count(*) from events") == 40


async def test_a_revoked_key_is_refused_at_once_and_buys_nothing(busy: Busy) -> None:
    await busy.until_leased()
    await revoke_key(busy.shop.database, busy.shop.project_id, busy.key_id, real_now())
    bought = busy.count
    for _ in range(3):
        reply = await busy.buy()
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
        reply = await busy.buy()
        refused = 401 if "expires_at" in rules else 403
        assert reply.status == refused, reply
        assert (await busy.shop.v2("user1", key=busy.key)).status == refused
    assert await busy.shop.database.pool.fetchval("select count(*) from events") == bought
    busy.shop.clock.now -= DAY
    busy.shop.client.address = "127.0.0.1"
    await busy.until_leased()


async def test_a_refused_purchase_says_why(busy: Busy) -> None:
    await busy.until_leased()
    reply = await busy.buy(product_id="nothing")
    assert reply.status == 404, reply
    reply = await busy.buy(app_user_id="user1")
    assert reply.status == 422, reply
