"""The examples of charts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from latchkey.usecases.rolling.roller import Roller
from tests.api.client import NOW, Shop


async def chart(ask: Callable[..., Awaitable[Any]], shop: Shop) -> None:
    """What was bought in the test store until now."""
    # For `active_users` of the overview.
    roller = Roller(shop.database)
    for step in range(8):
        await roller.turn(NOW + 6000 * step)
    days = "start_date=2027-01-14&end_date=2027-01-15&environment=sandbox"
    await ask("GET /charts/{chart_name}", query=f"?{days}&compare=true", chart_name="mrr")
    await ask("GET /charts/{chart_name}", query=f"?{days}&segment=product", also=".by_product", chart_name="revenue")
    await ask("GET /charts/{chart_name}", query="?filters=country", also=".filters", chart_name="mrr")
    await ask("GET /charts/{chart_name}/options", query="?environment=sandbox", chart_name="revenue")
    await ask("GET /metrics/overview", query="?environment=sandbox")
