"""One customer by any of its ids, read without a lock."""

from __future__ import annotations

from latchkey.domain.customers.customer import Customer
from latchkey.storage.customers.state_format import decode
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_STATE = query("customer_state")
_KEY = query("customers_by_whole_id")


async def load(connection: Connection, project_id: str, app_user_id: str) -> Customer | None:
    state = await connection.fetchval(_STATE, project_id, app_user_id)
    return None if state is None else decode(state)


async def key_of(connection: Connection, project_id: str, app_user_id: str) -> int | None:
    """The key of the customer's row, under which its events and currency transactions are stored."""
    key: int | None = await connection.fetchval(_KEY, project_id, [app_user_id])
    return key
