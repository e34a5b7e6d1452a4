"""`latchkey charts`, as somebody at a terminal would use it."""

from __future__ import annotations

import asyncio
import json

from latchkey.storage.database import Database
from tests.cli.running import typed
from tests.usecases.conftest import Shop


async def test_charts_are_computed_anew_and_attributes_chosen(shop: Shop) -> None:
    await shop.act("purchase", product="pro_monthly")
    where = {"LATCHKEY_DATABASE_URL": shop.database.url}
    done = await asyncio.to_thread(typed, "admin", "rebuild-charts", "--project", shop.project_id, "--json", **where)
    assert json.loads(done.stdout)["projects"] == [shop.project_id], done.stderr
    async with Database(shop.database.url, max_size=1) as database:
        row = await database.pool.fetchrow("select position, rebuilding from chart_rolls")
    assert row is not None
    assert (row["position"], row["rebuilding"]) == (1, None)
    chosen = await asyncio.to_thread(typed, "charts", "attributes", "--project", shop.project_id, "plan", **where)
    assert "broken down by: plan" in chosen.stdout, chosen.stderr
    refused = await asyncio.to_thread(typed, "admin", "rebuild-charts", "--project", "nobody", **where)
    assert refused.returncode == 1
    assert "nobody" in refused.stderr
