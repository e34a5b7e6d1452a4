"""The database may go away for a while; what was to be written is kept and tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg
import structlog

from latchkey.storage.errors import StorageError
from latchkey.storage.passing import REFUSES_WRITES

log = structlog.get_logger()

# Gone, going, coming back, overloaded, on a full disk, or a collision of two transactions: all of them pass.
OUTAGES: tuple[type[Exception], ...] = (
    *REFUSES_WRITES,
    OSError,
    TimeoutError,
    StorageError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.TransactionRollbackError,
    asyncpg.LockNotAvailableError,
    asyncpg.InternalClientError,
)
_LONGEST = 2.0


async def outlive(work: Callable[[], Awaitable[None]]) -> None:
    """Do it, and again after a moment for as long as the database is away."""
    wait = 0.02
    while True:
        try:
            await work()
        except OUTAGES as error:
            log.warning("database away", reason=str(error) or type(error).__name__, again_in=wait)
            await asyncio.sleep(wait)
            wait = min(wait * 2, _LONGEST)
        else:
            return
