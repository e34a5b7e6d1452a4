"""What is done about checkouts in the background: asking for payments of pages that were closed, and cleaning up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from latchkey.domain.instants import DAY, Ms
from latchkey.storage.database import Database
from latchkey.storage.passing import PASSING
from latchkey.storage.stores import checkouts as storage
from latchkey.usecases.checkout.checkouts import Checkouts

log = structlog.get_logger("latchkey.checkout")

# How long an expired checkout can still be asked for.
KEPT: Ms = 7 * DAY


async def run_checkouts(checkouts: Checkouts, database: Database, now: Callable[[], Ms], stop: asyncio.Event) -> None:
    """Until `stop` is set."""
    chores = [
        asyncio.create_task(_every(5.0, checkouts.ask_due)),
        asyncio.create_task(_every(600.0, lambda: prune(database, now() - KEPT))),
    ]
    try:
        await stop.wait()
    finally:
        for task in chores:
            task.cancel()
        await asyncio.gather(*chores, return_exceptions=True)


async def prune(database: Database, before: Ms) -> None:
    more = True
    while more:
        async with database.acquire() as connection:
            more = await storage.prune(connection, before)


async def _every(seconds: float, work: Callable[[], Awaitable[object]]) -> None:
    while True:
        try:
            await work()
        except Exception as error:
            if isinstance(error, PASSING):
                log.warning("chore of checkouts failed", reason=str(error))
            else:
                log.error("chore of checkouts failed", exc_info=error)
        await asyncio.sleep(seconds)
