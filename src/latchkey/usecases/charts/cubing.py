"""Moves fresh blocks into the cuboids while the roller's batches go on: it can take seconds, and charts must not be
late meanwhile."""

from __future__ import annotations

import asyncio

import structlog

from latchkey.storage.charts import progress
from latchkey.storage.database import Database
from latchkey.storage.passing import PASSING
from latchkey.usecases.charts import folding
from latchkey.usecases.charts.folding import Part

log = structlog.get_logger()


class Cubing:
    """One at a time. What is not begun is begun after another fold."""

    def __init__(self) -> None:
        self._running: asyncio.Task[None] | None = None

    def begin(self, database: Database, project_id: str, part: Part) -> None:
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(_logged(database, project_id, part))

    async def end(self) -> None:
        """Nothing of it is written, if it has not ended by itself."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)


async def cube(database: Database, project_id: str, part: Part) -> bool:
    """Returns whether it was done. If not, the blocks have changed, and it is done after another fold."""
    async with database.transaction(isolation="repeatable_read", readonly=True) as connection:
        change = await folding.cubed(connection, project_id, part)
    if not change.gone:
        return False
    async with database.transaction() as connection:
        held = await progress.hold(connection, project_id, wait=True)
        # If everything is being computed anew, these blocks are about to be deleted.
        return held is not None and held.rebuilding is None and await folding.put(connection, project_id, change)


async def _logged(database: Database, project_id: str, part: Part) -> None:
    try:
        await cube(database, project_id, part)
    except PASSING as error:
        log.warning("charts of a project were not added up", project_id=project_id, reason=str(error))
    except Exception:
        # Its charts stay right, and read more blocks than necessary.
        log.exception("charts of a project were not added up", project_id=project_id)
