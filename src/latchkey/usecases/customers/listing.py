"""A project's customers, page by page."""

from __future__ import annotations

from latchkey.storage.customers import listing as customer_list
from latchkey.storage.customers.listing import ListedCustomer as ListedCustomer
from latchkey.storage.database import Database


async def list_customers(
    database: Database, project_id: str, *, after: str | None = None, limit: int = 100
) -> list[ListedCustomer]:
    async with database.acquire() as connection:
        return await customer_list.page(connection, project_id, after, limit)
