"""The database's plan for a named query while its tables are empty."""

from latchkey.database.pool import Connection
from latchkey.database.sql import query


async def plan_of(connection: Connection, name: str, types: str) -> list[str]:
    """The lines of the plan for a prepared query with parameters of these types."""
    await connection.execute(f"prepare it ({types}) as {query(name)}")
    nulls = ", ".join("null" for _ in types.split(","))
    plan = [row[0] for row in await connection.fetch(f"explain execute it ({nulls})")]
    await connection.execute("deallocate it")
    return plan


def conditions(plan: list[str]) -> str:
    """The index conditions of a plan."""
    return " ".join(line for line in plan if "Index Cond" in line)
