"""What is done about checkouts in the background: asking for payments of pages that were closed, and cleaning up."""

import asyncio
from collections.abc import Callable

from latchkey.database.pool import Database
from latchkey.domain.instants import DAY, Ms
from latchkey.engine.due_work import Lookout, attempt, cancel_all, every
from latchkey.subjects.checkout import storage
from latchkey.subjects.checkout.usecases.checkouts import Checkouts

# How long an expired checkout can still be asked for.
KEPT: Ms = 7 * DAY
_FAILED = "chore of checkouts failed"


async def run_checkouts(
    lookout: Lookout, checkouts: Checkouts, database: Database, now: Callable[[], Ms], stop: asyncio.Event
) -> None:
    """Until `stop` is set."""
    chores = [
        asyncio.create_task(_ask(lookout, checkouts)),
        asyncio.create_task(every(600.0, _FAILED, lambda: prune(database, now() - KEPT))),
    ]
    try:
        await stop.wait()
    finally:
        await cancel_all(chores)


async def _ask(lookout: Lookout, checkouts: Checkouts) -> None:
    while await lookout.until(lambda seen: seen.checkout_at) is not None:
        await attempt(_FAILED, checkouts.ask_due)


async def prune(database: Database, before: Ms) -> None:
    async with database.acquire() as connection:
        while await storage.prune(connection, before):
            pass
