"""Figures through the database: what the shop sells is in the overview, whoever it belongs to afterwards."""

from __future__ import annotations

from latchkey.domain import figures
from latchkey.domain.figures_overview import Overview
from latchkey.domain.instants import DAY
from latchkey.domain.purchase import Environment
from latchkey.usecases.figures import catch_up, overview
from tests.usecases.conftest import Shop


async def look(shop: Shop, days: int = 28) -> Overview:
    assert await catch_up(shop.db, shop.project_id, shop.time)
    return await overview(shop.db, shop.project_id, Environment.SANDBOX, days, shop.time)


async def test_a_subscription_is_counted_until_it_ends_by_itself(shop: Shop) -> None:
    await shop.act("purchase", product="pro_monthly")
    seen = await look(shop)
    assert seen.card(figures.ACTIVE_SUBSCRIPTIONS).value == 1
    assert seen.card(figures.MRR).value == 9_990_000
    assert seen.card(figures.MRR).currency == "USD"
    assert seen.card(figures.ARR).value == 12 * 9_990_000
    assert seen.card(figures.NEW_CUSTOMERS).value == 1
    await shop.act("cancel")
    shop.time += 40 * DAY
    later = await look(shop)
    assert later.card(figures.ACTIVE_SUBSCRIPTIONS).value == 0
    assert later.card(figures.ACTIVE_SUBSCRIPTIONS).previous == 1
    assert later.card(figures.CHURN).value == 1
