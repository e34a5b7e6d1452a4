"""The part of the story in which the operator looks at projects, the team, and what was changed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from latchkey.domain.team.account import Role
from latchkey.usecases.access.team import add_member
from tests.api.client import NOW, Shop


async def administer(ask: Callable[..., Awaitable[Any]], shop: Shop) -> None:
    await add_member(shop.database, shop.project_id, "ops@example.com", Role.OWNER, NOW, name="Olive")
    await ask("GET /collaborators")
    await ask("GET /v2/projects")
    # The ids of entries are positions: this one does not depend on how many changes the story made before.
    async with shop.database.acquire() as connection:
        await connection.execute("select setval(pg_get_serial_sequence('audit_entries', 'position'), 1000)")
    await ask("POST /v2/projects", {"name": "Second"})
    await ask("GET /audit_logs", query="?limit=1&end_date=2027-01-15")
