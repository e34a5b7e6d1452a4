"""What the team wrote about a customer."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_ADD = query("add_note")
_CHANGE = query("change_note")
_DELETE = query("delete_note")
_OF_CUSTOMER = query("notes_of_customer")


@dataclass(frozen=True, slots=True)
class Note:
    id: str
    account_id: str
    # The author's e-mail address when it was written.
    author: str
    body: str
    created_at: Ms
    edited_at: Ms | None


async def add(
    connection: Connection, project_id: str, key: int, id: str, account_id: str, author: str, body: str, now: Ms
) -> bool:
    """False: there is no such customer any more."""
    return await connection.fetchval(_ADD, project_id, key, id, account_id, author, body, now) is not None


async def change(
    connection: Connection, project_id: str, key: int, id: str, account_id: str, body: str, now: Ms
) -> bool:
    """False: there is no such note of this account."""
    return await connection.fetchval(_CHANGE, project_id, key, id, account_id, body, now) is not None


async def delete(connection: Connection, project_id: str, key: int, id: str, account_id: str) -> bool:
    """False: there is no such note of this account."""
    return await connection.fetchval(_DELETE, project_id, key, id, account_id) is not None


async def of_customer(connection: Connection, project_id: str, key: int, limit: int) -> list[Note]:
    return [Note(**row) for row in await connection.fetch(_OF_CUSTOMER, project_id, key, limit)]
