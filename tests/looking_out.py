"""A lookout for tests: it looks a hundred times a second, and ends with the block."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from latchkey.database.pool import Database
from latchkey.domain.instants import Ms
from latchkey.engine import due_work as looks
from latchkey.engine.due_work import Lookout


@asynccontextmanager
async def looking_out(database: Database, now: Callable[[], Ms], every: float = 0.01) -> AsyncIterator[Lookout]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(looks, "EVERY", every)
        lookout = Lookout(database, now)
    stop = asyncio.Event()
    running = asyncio.create_task(lookout.run(stop))
    try:
        yield lookout
    finally:
        stop.set()
        await running
