from __future__ import annotations

import pytest

from latchkey.domain.instants import DAY, parse_duration
from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.refusal import InUse, Refusal
from latchkey.usecases.sandbox.clocks import advance, create_clock, create_customer, delete_clock
from tests.usecases.conftest import NOON, Shop

START = 1_738_281_600_000  # 2025-01-31T00:00:00Z


@pytest.fixture
async def clock(shop: Shop) -> str:
    await create_clock(shop.database, shop.project_id, "clk", "A year", START, NOON)
    await create_customer(shop.changes, shop.project_id, "alice", "clk")
    return "clk"


async def test_a_year_of_renewals_happens_each_at_its_own_instant(shop: Shop, clock: str) -> None:
    await shop.act("purchase", product="pro_monthly")
    moved = await advance(shop.changes, shop.project_id, clock, by=parse_duration("P1Y"))
    events = await shop.events()
    assert moved.events == 12
    assert [event.type for event in events] == ["INITIAL_PURCHASE"] + ["RENEWAL"] * 12
    days = [event.entitlements["pro"].expires_date for event in events[:4]]
    assert days == ["2025-02-28T00:00:00Z", "2025-03-31T00:00:00Z", "2025-04-30T00:00:00Z", "2025-05-31T00:00:00Z"]
    assert {event.environment for event in events} == {"SANDBOX"}


async def test_customers_of_one_clock_change_in_the_order_of_their_instants(shop: Shop, clock: str) -> None:
    await create_customer(shop.changes, shop.project_id, "bob", clock)
    await shop.act("purchase", user="bob", product="pro_monthly")
    await advance(shop.changes, shop.project_id, clock, by=parse_duration("P3D"))
    await shop.act("purchase", user="alice", product="pro_monthly", trial=True)
    await advance(shop.changes, shop.project_id, clock, by=parse_duration("P2M"))
    stamps = [event.event_timestamp_ms for event in await shop.events(None)]
    assert stamps == sorted(stamps)


async def test_real_time_does_not_touch_a_customer_on_a_clock(shop: Shop, clock: str) -> None:
    await shop.act("purchase", product="pro_monthly")
    await shop.wait(400 * DAY)
    assert await shop.told() == ["INITIAL_PURCHASE"]


async def test_time_only_moves_forward(shop: Shop, clock: str) -> None:
    with pytest.raises(Refusal, match="it only moves forward"):
        await advance(shop.changes, shop.project_id, clock, to=START - 1)


async def test_only_sandbox_purchases_on_a_clock(shop: Shop, clock: str) -> None:
    with pytest.raises(Refusal, match="SANDBOX"):
        await shop.act("purchase", product="pro_monthly", environment=Environment.PRODUCTION)


async def test_a_clock_in_use_is_not_deleted(shop: Shop, clock: str) -> None:
    with pytest.raises(InUse):
        await delete_clock(shop.database, shop.project_id, clock)
