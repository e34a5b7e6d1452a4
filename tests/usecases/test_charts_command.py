"""`latchkey charts`, as somebody at a terminal would use it."""

from __future__ import annotations

import asyncio

from tests.cli.running import typed
from tests.usecases.conftest import Shop


async def test_attributes_are_chosen(shop: Shop) -> None:
    where = {"LATCHKEY_DATABASE_URL": shop.database.url}
    chosen = await asyncio.to_thread(typed, "charts", "attributes", "--project", shop.project_id, "plan", **where)
    assert "broken down by: plan" in chosen.stdout, chosen.stderr
