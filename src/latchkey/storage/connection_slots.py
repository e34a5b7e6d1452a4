"""How many connections a PostgreSQL server accepts."""

from __future__ import annotations

from typing import Any

# Kept for the superuser, and (PostgreSQL 16 and newer) for roles that may use reserved connections.
_RESERVED = ("superuser_reserved_connections", "reserved_connections")


async def connection_slots(connection: Any) -> int:
    """Those that an ordinary role can get. Other programs that use the same server take from them too."""
    most = int(await connection.fetchval("show max_connections"))
    reserved = [await connection.fetchval("select current_setting($1, true)", name) for name in _RESERVED]
    return most - sum(int(one or 0) for one in reserved)
