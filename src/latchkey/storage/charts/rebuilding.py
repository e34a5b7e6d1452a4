"""Computing a project's sums anew, in steps. The project's charts are locked by each step."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from latchkey.storage.charts.subjects import Row, decode
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

CLEARING, SUMMING = "clearing", "summing"

_BEGIN = query("begin_charts_rebuild")
_CLEAR = query("clear_charts")
_BEGIN_SUMMING = query("begin_charts_summing")
_NEXT = query("next_chart_subjects")
_FINISH = query("finish_charts_rebuild")
_CHOOSE = query("choose_chart_attributes")
_AGAIN = query("look_at_customers_again")


async def begin(connection: Connection, project_id: str) -> None:
    await connection.execute(_BEGIN, project_id)


async def clear(connection: Connection, project_id: str, limit: int) -> int:
    """Deletes up to `limit` rows of each table. Returns how many there were."""
    count: int = await connection.fetchval(_CLEAR, project_id, limit)
    return count


async def begin_summing(connection: Connection, project_id: str) -> None:
    await connection.execute(_BEGIN_SUMMING, project_id)


async def next_subjects(
    connection: Connection, project_id: str, after: UUID, limit: int
) -> list[tuple[UUID, list[Row]]]:
    rows = await connection.fetch(_NEXT, project_id, after, limit)
    return [(row["subject"], decode(row["facts"])) for row in rows]


async def finish(connection: Connection, project_id: str) -> None:
    await connection.execute(_FINISH, project_id)


async def choose_attributes(connection: Connection, project_id: str, names: Sequence[str]) -> None:
    """The caller has announced a change of the catalog."""
    await connection.execute(_CHOOSE, project_id, list(names))
    await connection.execute(_AGAIN, project_id)
