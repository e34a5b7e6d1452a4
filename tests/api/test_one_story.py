"""V1, V2 and the last event agree: long random histories on test clocks, compared after every step."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest
from msgspec import convert

from latchkey.wire.lifetime import never_ends
from latchkey.wire.v1 import Subscriber
from tests.api.client import DAY, NOW, Shop
from tests.api.doings import act, advance, make_clock, move_in, told
from tests.api.management import get, post
from tests.domain.web_sdk import active_in_web_sdk

pytestmark = pytest.mark.thorough

ACTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("purchase", {"product_id": "pro_monthly"}),
    ("purchase", {"product_id": "pro_monthly", "trial": True}),
    ("purchase", {"product_id": "team_monthly"}),
    ("purchase", {"product_id": "pro_lifetime"}),
    ("purchase", {"product_id": "coins_100"}),
    ("renew", {}),
    ("cancel", {}),
    ("cancel", {"reason": "PRICE_INCREASE"}),
    ("uncancel", {}),
    ("fail_billing", {"grace_days": 3}),
    ("fail_billing", {}),
    ("recover_billing", {}),
    ("expire", {}),
    ("refund", {}),
    ("reverse_refund", {}),
    ("change_product", {"new_product_id": "pro_yearly"}),
    ("change_product", {"new_product_id": "team_monthly"}),
    ("change_product", {"new_product_id": "pro_monthly", "when": "at_renewal"}),
    ("pause", {}),
    ("resume", {}),
    ("extend", {"days": 4}),
    ("issue_invoice", {}),
    ("store_outage", {"product_id": "team_monthly"}),
)
WAITS = ("PT1S", "PT7H", "P1D", "P3D", "P8D", "P1M", "P2M", "P1Y")


def whole_second(end: int, now: int) -> int | None:
    """An end of V2 as V1 writes it."""
    return None if never_ends(end, now) else -(-end // 1000) * 1000


def ms(iso: str | None) -> int | None:
    return None if iso is None else int(datetime.strptime(iso, "%Y-%m-%dT%H:%M:%S%z").timestamp()) * 1000


class Life:
    def __init__(self, shop: Shop, who: str, clock: str, chance: random.Random) -> None:
        self.shop, self.who, self.clock, self.chance = shop, who, clock, chance
        self.done: list[str] = []
        self.events = 0

    async def step(self) -> None:
        kind = self.chance.random()
        if kind < 0.35:
            by = self.chance.choice(WAITS)
            self.done.append(f"wait {by}")
            await advance(self.shop, self.clock, by=by)
        elif kind < 0.9:
            name, fields = self.chance.choice(ACTIONS)
            if name == "pause":
                now = (await get(self.shop, f"test_clocks/{self.clock}")).json()["now_ms"]
                fields = {"resume_at_ms": now + self.chance.choice((20, 40, 90)) * DAY}
            reply = await act(self.shop, name, self.who, **fields)
            self.done.append(f"{name} {fields} {reply.status}")
            assert reply.status in {200, 422}, (reply, self.done)
        else:
            action, body = self.chance.choice(
                (
                    ("grant_entitlement", {"entitlement_id": "team"}),
                    ("revoke_granted_entitlement", {"entitlement_id": "team"}),
                )
            )
            self.done.append(action)
            expected = 201 if action == "grant_entitlement" else 200
            assert (await post(self.shop, f"customers/{self.who}/actions/{action}", body)).status == expected

    async def compare(self) -> None:
        """All three at one instant: the clock stands still between them."""
        v1 = (await self.shop.v1(quote(self.who))).json()
        v2 = (await self.shop.v2(quote(self.who))).json()
        events = await told(self.shop, self.who)
        now = v1["request_date_ms"]
        subscriber = v1["subscriber"]
        context = "\n".join(self.done)

        # V2 holds exactly what a reader of V1 judges active by expires_date, until the same moment.
        active = {item["entitlement_id"]: item["expires_at"] for item in v2["active_entitlements"]["items"]}
        shown = {id: ms(one["expires_date"]) for id, one in subscriber["entitlements"].items()}
        believed = {id: end for id, end in shown.items() if end is None or end > now}
        assert believed == {id: whole_second(end, now) for id, end in active.items()}, context
        by_sdk = active_in_web_sdk(convert(subscriber, Subscriber), now)
        assert by_sdk == active.keys(), context
        for id, one in subscriber["entitlements"].items():
            # Every entitlement's product can be looked up, and a grace end is the entitlement's end.
            product = one["product_identifier"]
            assert product in subscriber["subscriptions"] or product in subscriber["non_subscriptions"], context
            if one["grace_period_expires_date"] is not None:
                assert one["expires_date"] == one["grace_period_expires_date"], context
                assert subscriber["subscriptions"][product]["expires_date"] < one["expires_date"], context
            explained = (await get(self.shop, f"customers/{self.who}/entitlements/{id}/explanation")).json()
            assert explained["has_access"] is (id in active), context
            if id in active:
                assert explained["product_id"] == product, context
                assert explained["until"] == (None if never_ends(active[id], now) else active[id]), context

        # The last event has the entitlements of now, and those that have ended since by time alone.
        assert [event["sequence"] for event in events] == list(range(1, len(events) + 1)), context
        assert len({event["id"] for event in events}) == len(events), context
        assert len(events) >= self.events, context
        self.events = len(events)
        if events:
            last = events[-1]
            assert last["event_timestamp_ms"] <= now, context
            still = {
                id: one
                for id, one in last["entitlements"].items()
                if (end := ms(one["expires_date"])) is None or end > now
            }
            # Copied from an event, an end lasts for the rest of its second.
            assert still.items() >= {id: subscriber["entitlements"][id] for id in active}.items(), context
            assert all(ms(still[id]["expires_date"]) < now + 1000 for id in still.keys() - active.keys()), context
        else:
            assert not active, context

        # Both name the same attributes and the same beginning.
        assert ms(subscriber["first_seen"]) == v2["first_seen_at"] // 1000 * 1000
        attributes = {item["name"]: item["value"] for item in v2["attributes"]["items"]}
        assert {name: one["value"] for name, one in subscriber["subscriber_attributes"].items()} == attributes


@pytest.mark.parametrize("seed", range(6))
async def test_three_tellers_agree_after_every_step_of_a_long_life(steady_shop: Shop, seed: int) -> None:
    chance = random.Random(seed)
    # Not a whole second, so that every end has to be rounded.
    clock = await make_clock(steady_shop, NOW)
    who = f"life{seed}"
    await move_in(steady_shop, who, clock)
    await steady_shop.note(who, plan="x")
    life = Life(steady_shop, who, clock, chance)
    for _ in range(45):
        await life.step()
        await life.compare()
    assert life.events > 5


def test_seconds_are_read_as_they_are_written() -> None:
    assert ms("2027-01-15T08:00:00Z") == int(datetime(2027, 1, 15, 8, tzinfo=UTC).timestamp()) * 1000
