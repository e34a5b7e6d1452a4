"""A project's customers, page by page."""

from __future__ import annotations

from latchkey.storage.customers import listing as customer_list
from latchkey.storage.customers.listing import Alias as Alias
from latchkey.storage.customers.listing import ListedCustomer as ListedCustomer
from latchkey.storage.database import Database


async def list_customers(
    database: Database, project_id: str, *, after: str | None = None, limit: int = 100, email: str | None = None
) -> list[ListedCustomer]:
    """By id. With `email`, those whose attribute $email is this address, in any case."""
    async with database.acquire() as connection:
        return await customer_list.page(connection, project_id, after, limit, email)


async def list_aliases(database: Database, project_id: str, customer_key: int) -> list[Alias]:
    """All ids of a customer, sorted."""
    async with database.acquire() as connection:
        found = await customer_list.aliases(connection, project_id, customer_key)
    return sorted(found, key=lambda one: one.app_user_id)
