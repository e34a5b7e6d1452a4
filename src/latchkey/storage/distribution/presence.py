"""Whether a database is a distributed one."""

from __future__ import annotations

from typing import Any


async def is_distributed(connection: Any) -> bool:
    """Whether the rows of this database are spread over several nodes, or were about to be: `latchkey migrate` goes on
    with what was interrupted, and no process starts before it is done."""
    found: bool = await connection.fetchval("select to_regclass('at_project.statements') is not null")
    return found
