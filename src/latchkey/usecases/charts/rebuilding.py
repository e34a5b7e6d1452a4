"""Computes the charts of a project anew.

The sums are deleted, then made from the stored facts of all subjects, and the feed is processed from the beginning, so
that facts follow the rules of this release. What is kept: the facts of erased customers, and where each subject came
from. The roller does all of this in steps, in the background; answers say that they are incomplete meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from latchkey.domain.instants import Ms
from latchkey.domain.refusal import NotFound
from latchkey.storage.catalog import catalogs
from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.storage.charts import books, progress
from latchkey.storage.database import Connection, Database
from latchkey.usecases.charts import roller
from latchkey.usecases.charts.numbers import Numbers


class Reached(NamedTuple):
    # "clearing", "summing" or "events".
    step: str
    # Events that are in the charts, and events there are.
    position: int
    head: int


async def begin(database: Database, project_id: str) -> None:
    async with database.transaction() as connection:
        await _hold(connection, project_id)
        await books.begin_rebuild(connection, project_id)


async def rebuild(
    database: Database, project_id: str, now: Callable[[], Ms], told: Callable[[Reached], None] = lambda _: None
) -> None:
    """Begins, and does the work until the charts are up to date. The roller may help."""
    await begin(database, project_id)
    work = roller.Work(Catalogs(), Numbers())
    while True:
        more = (await roller.roll(database, work, project_id, now(), wait=True)).more
        async with database.acquire() as connection:
            found = await progress.load(connection, project_id)
        if found is None:
            return
        told(Reached(found.rebuilding or "events", found.position, found.head))
        if found.rebuilding is None and found.position >= found.head and not more:
            return


async def choose_attributes(database: Database, project_id: str, names: Sequence[str]) -> None:
    """Charts can be filtered and broken down by these customer attributes from now on. All customers are looked at
    again, in the background."""
    async with database.transaction() as connection:
        # Customers are counted again when one of these changes, so every process must know them: part of the catalog.
        await catalogs.announce(connection, project_id)
        await _hold(connection, project_id)
        await books.choose_attributes(connection, project_id, sorted(set(names)))


async def _hold(connection: Connection, project_id: str) -> None:
    if await progress.hold(connection, project_id, wait=True) is None:
        raise NotFound(f"There is no project {project_id}.", param="project_id")
