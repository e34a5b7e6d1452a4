"""Database outages: work that hits one is retried until it succeeds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from latchkey.storage.errors import OutageError

log = structlog.get_logger()

_LONGEST = 2.0
Done = TypeVar("Done")


async def retry_through_outages(work: Callable[[], Awaitable[Done]]) -> Done:
    """Do the work; while the database is unreachable, retry after a wait that grows to two seconds."""
    wait = 0.02
    while True:
        try:
            return await work()
        except OutageError as error:
            log.warning("database unreachable", reason=str(error), again_in=wait)
            await asyncio.sleep(wait)
            wait = min(wait * 2, _LONGEST)
