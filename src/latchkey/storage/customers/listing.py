"""Customers as the API lists them. The stored state is not read: a page costs one index scan."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.instants import Ms
from latchkey.storage.customers.records import LastSeen
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_PAGE = query("list_customers")


@dataclass(frozen=True, slots=True)
class ListedCustomer:
    app_user_id: str
    first_seen_at: Ms
    last_seen: LastSeen


async def page(connection: Connection, project_id: str, after: str | None, limit: int) -> list[ListedCustomer]:
    """By app user id; `after` is the last id of the page before."""
    return [
        ListedCustomer(
            app_user_id=row["app_user_id"],
            first_seen_at=row["first_seen_at"],
            last_seen=LastSeen(
                at=row["last_seen_at"],
                platform=row["last_seen_platform"],
                platform_version=row["last_seen_platform_version"],
                app_version=row["last_seen_app_version"],
                country=row["last_seen_country"],
            ),
        )
        for row in await connection.fetch(_PAGE, project_id, after, limit)
    ]
