"""A pooler in transaction mode between us and PostgreSQL: it cannot be used."""

from __future__ import annotations

from typing import Any

import asyncpg

from latchkey.storage.sql import query

_SESSION = query("server_session")
# A prepared statement is in another session than its connection thinks.
MIXED_UP = (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError)
IN_TRANSACTION_MODE = (
    "a pooler in transaction mode is in between, which loses notifications, prepared statements and the settings of "
    "sessions; use its session mode, or connect to PostgreSQL itself (docs/failover.md)"
)


async def shares_sessions(connection: Any, other: Any) -> bool:
    """Whether a session of PostgreSQL goes from one of two connections to the other."""
    try:
        own = await connection.fetchval(_SESSION)
        async with other.transaction():
            given_away: bool = own == await other.fetchval(_SESSION)
            return given_away or bool(own != await connection.fetchval(_SESSION))
    except MIXED_UP:
        return True
