"""What is done about checkouts in the background: asking for payments of pages that were closed, and cleaning up."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from latchkey.database.pool import Database
from latchkey.database.transient_errors import PASSING
from latchkey.domain.instants import DAY, Ms
from latchkey.engine.due_work import Lookout
from latchkey.subjects.checkout import storage
from latchkey.subjects.checkout.usecases.checkouts import Checkouts

log = structlog.get_logger()

# How long an expired checkout can still be asked for.
KEPT: Ms = 7 * DAY


async def run_checkouts(
    lookout: Lookout, checkouts: Checkouts, database: Database, now: Callable[[], Ms], stop: asyncio.Event
) -> None:
    """Until `stop` is set."""
    chores = [
        asyncio.create_task(_ask(lookout, checkouts)),
        asyncio.create_task(_every(600.0, lambda: prune(database, now() - KEPT))),
    ]
    try:
        await stop.wait()
    finally:
        for task in chores:
            task.cancel()
        await asyncio.gather(*chores, return_exceptions=True)


async def _ask(lookout: Lookout, checkouts: Checkouts) -> None:
    while await lookout.until(lambda seen: seen.checkout_at) is not None:
        await _tried(checkouts.ask_due)


async def prune(database: Database, before: Ms) -> None:
    more = True
    while more:
        async with database.acquire() as connection:
            more = await storage.prune(connection, before)


async def _every(seconds: float, work: Callable[[], Awaitable[object]]) -> None:
    while True:
        await _tried(work)
        await asyncio.sleep(seconds)


async def _tried(work: Callable[[], Awaitable[object]]) -> None:
    try:
        await work()
    except PASSING as error:
        log.warning("chore of checkouts failed", reason=str(error))
    except Exception:
        log.exception("chore of checkouts failed")
