"""The examples of customer lists and segments."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from latchkey.usecases.rolling.roller import Roller
from tests.api.client import NOW, Shop


async def list_customers(ask: Callable[..., Awaitable[Any]], shop: Shop) -> None:
    """Who has bought in the test store until now."""
    roller = Roller(shop.database)
    for step in range(8):
        await roller.turn(NOW + 6000 * step)
    await ask("GET /customer_list", query="?product_id=pro_monthly&sort=spent")
    id = (await ask("POST /customer_segments", {"name": "Trials", "filter": {"status": "trial"}}))["id"]
    await ask("GET /customer_segments")
    await ask("GET /customer_segments/{segment_id}", segment_id=id)
    await ask("DELETE /customer_segments/{segment_id}", segment_id=id)
    granted = {"entitlement_id": "team", "duration": "weekly", "filter": {"product_id": "pro_monthly"}}
    ids = {"bulk_grant_id": (await ask("POST /bulk_grants", granted))["id"]}
    # Nothing works on it here: what it grants would be in the examples after this one.
    await ask("POST /bulk_grants/{bulk_grant_id}/actions/start", **ids)
    await ask("GET /bulk_grants/{bulk_grant_id}", **ids)
    await ask("POST /bulk_grants/{bulk_grant_id}/actions/stop", **ids)
    await ask("GET /bulk_grants")
