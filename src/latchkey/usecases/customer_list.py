"""A project's customers, page by page. Their states stay where they are: a page costs one walk along an index."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.instants import Ms
from latchkey.storage.database import Database
from latchkey.storage.sql import query
from latchkey.usecases.view import LastSeen

LIST_CUSTOMERS = query("list_customers")


@dataclass(frozen=True, slots=True)
class ListedCustomer:
    app_user_id: str
    first_seen_at: Ms
    last_seen: LastSeen


async def list_customers(
    database: Database, project_id: str, *, after: str | None = None, limit: int = 100
) -> list[ListedCustomer]:
    async with database.acquire() as connection:
        rows = await connection.fetch(LIST_CUSTOMERS, project_id, after, limit)
    return [
        ListedCustomer(app_user_id, first_seen_at, LastSeen(at, platform, platform_version, app_version, country))
        for app_user_id, first_seen_at, at, app_version, country, platform, platform_version in rows
    ]
