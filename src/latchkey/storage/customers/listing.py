"""Customers as the API lists them. The stored state is not read: a page costs one index scan."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.instants import Ms
from latchkey.storage.customers.records import LastSeen, folded
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_PAGE = query("list_customers")
_BY_EMAIL = query("list_customers_by_email")
_ALIASES = query("aliases_of_customer")


@dataclass(frozen=True, slots=True)
class ListedCustomer:
    app_user_id: str
    first_seen_at: Ms
    last_seen: LastSeen


@dataclass(frozen=True, slots=True)
class Alias:
    app_user_id: str
    created_at: Ms


async def page(
    connection: Connection, project_id: str, after: str | None, limit: int, email: str | None = None
) -> list[ListedCustomer]:
    """By app user id; `after` is the last id of the page before. With `email`, only those with this address."""
    if email is None:
        rows = await connection.fetch(_PAGE, project_id, after, limit)
    else:
        rows = await connection.fetch(_BY_EMAIL, project_id, after, limit, folded(email))
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
        for row in rows
    ]


async def aliases(connection: Connection, project_id: str, key: int) -> list[Alias]:
    """All ids of a customer."""
    return [Alias(row["app_user_id"], row["created_at"]) for row in await connection.fetch(_ALIASES, project_id, key)]
