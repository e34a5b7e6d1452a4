"""Database outages: work that hits one is retried until it succeeds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from latchkey.storage.errors import OutageError

log = structlog.get_logger()

_LONGEST = 2.0


async def retry_through_outages(
    work: Callable[[], Awaitable[None]], *, but: tuple[type[OutageError], ...] = ()
) -> None:
    """Do the work; while the database is unreachable, retry after a wait that grows to two seconds. Errors of the
    classes `but` are raised."""
    wait = 0.02
    while True:
        try:
            await work()
        except OutageError as error:
            if isinstance(error, but):
                raise
            log.warning("database unreachable", reason=str(error), again_in=wait)
            await asyncio.sleep(wait)
            wait = min(wait * 2, _LONGEST)
        else:
            return
