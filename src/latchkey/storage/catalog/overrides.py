"""The offering that one customer sees instead of the current one."""

from __future__ import annotations

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_SET = query("override_offering")
_CLEAR = query("clear_offering_override")


async def assign(connection: Connection, project_id: str, app_user_id: str, offering_id: str, now: Ms) -> bool:
    """False: there is no such customer."""
    return await connection.fetchval(_SET, project_id, app_user_id, offering_id, now) is not None


async def clear(connection: Connection, project_id: str, app_user_id: str) -> None:
    await connection.execute(_CLEAR, project_id, app_user_id)
