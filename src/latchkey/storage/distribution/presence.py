"""Whether a database is a distributed one."""

from __future__ import annotations

from typing import Any


async def is_distributed(connection: Any) -> bool:
    """Whether the rows of this database are spread over several nodes."""
    if not await connection.fetchval("select exists (select from pg_extension where extname = 'citus')"):
        return False
    found: bool = await connection.fetchval(
        "select exists (select from pg_dist_partition where logicalrelid = to_regclass('public.customers'))"
    )
    return found
