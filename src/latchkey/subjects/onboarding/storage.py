"""The first steps in a project: which are done, as the data says, and as is remembered."""

from dataclasses import dataclass

from latchkey.database.pool import Connection, Executor
from latchkey.database.rows import executes
from latchkey.database.sql import query


@dataclass(frozen=True, slots=True)
class Kept:
    done: frozenset[str] = frozenset()
    dismissed: bool = False


async def load(connection: Connection, project_id: str) -> Kept:
    row = await connection.fetchrow(query("load_onboarding"), project_id)
    return Kept() if row is None else Kept(frozenset(row[0]), row[1] is not None)


async def found(connection: Connection, project_id: str) -> frozenset[str]:
    """Of a store, a product and a test event, those that the project has or had lately."""
    row = await connection.fetchrow(query("found_of_onboarding"), project_id)
    assert row is not None, "a select without a table has a row"
    return frozenset(name for name in ("store", "product", "test_event") if row[name])


async def unused(connection: Executor, project_id: str) -> frozenset[str]:
    """Of the parts that not every project needs, those that this one has nothing of yet."""
    row = await connection.fetchrow(query("used_parts"), project_id)
    assert row is not None, "a select without a table has a row"
    return frozenset(name for name, used in row.items() if not used)


# The steps that are done, and when the list was dismissed; null keeps what there is.
keep = executes(query("keep_onboarding"))
