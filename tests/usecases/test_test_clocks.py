from __future__ import annotations

import pytest

from latchkey.domain.instants import parse_duration
from latchkey.usecases.sandbox.clocks import advance, create_clock, create_customer
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
