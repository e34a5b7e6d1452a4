"""The steps in which the sums of a project are computed anew, from the stored facts of its subjects."""

from __future__ import annotations

from uuid import UUID

from msgspec.structs import replace

from latchkey.domain.instants import Ms
from latchkey.storage.charts import books
from latchkey.storage.charts.books import CLEARING
from latchkey.storage.charts.progress import Roll
from latchkey.storage.charts.subjects import Row
from latchkey.storage.database import Connection
from latchkey.usecases.charts import folding
from latchkey.usecases.charts.books import FOLD_AT, placed

# Rows deleted, and subjects added, in one transaction.
CLEARED_AT_ONCE = 20_000
SUBJECTS_AT_ONCE = 500


async def step(connection: Connection, roll: Roll, now: Ms) -> None:
    """The next step of a project that is being rebuilt. It is locked, and nothing else of it was changed yet."""
    if roll.rebuilding == CLEARING:
        if not await books.clear(connection, roll.project_id, CLEARED_AT_ONCE):
            await books.begin_summing(connection, roll.project_id)
        return
    after = roll.summed_to or UUID(int=0)
    found = await books.next_subjects(connection, roll.project_id, after, SUBJECTS_AT_ONCE)
    if not found:
        await books.finish_rebuild(connection, roll.project_id)
        return
    roll = replace(roll, summed_to=found[-1][0], passed_to=max(roll.passed_to, now))
    rows: list[tuple[str, Row]] = [(roll.project_id, row) for _, facts in found for row in facts]
    changes = await placed(connection, {roll.project_id: roll}, {}, rows)
    tail = roll.tail + len(changes.past)
    tails = await books.write(connection, [], changes, [replace(roll, batch=roll.batch + 1, tail=tail)])
    if tails[roll.project_id] >= FOLD_AT:
        await folding.fold(connection, roll.project_id, now)
