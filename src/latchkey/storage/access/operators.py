"""Who may see what concerns the whole deployment."""

from __future__ import annotations

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_GRANT = query("grant_operator")
_REVOKE = query("revoke_operator")
_IS_ONE = query("is_operator")
_LIST = query("list_operators")


async def grant(connection: Connection, account_id: str, now: Ms) -> None:
    await connection.execute(_GRANT, account_id, now)


async def revoke(connection: Connection, account_id: str) -> None:
    await connection.execute(_REVOKE, account_id)


async def is_one(connection: Connection, account_id: str) -> bool:
    return bool(await connection.fetchval(_IS_ONE, account_id))


async def addresses(connection: Connection) -> list[str]:
    return [row["email"] for row in await connection.fetch(_LIST)]
