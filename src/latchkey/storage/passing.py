"""Driver errors that are likely temporary. Separate from `errors.py`, which is imported where no driver is
installed."""

from __future__ import annotations

import asyncpg

from latchkey.storage.errors import CollisionError, OutageError

# The database answers, but refuses changes: its disk is full or broken, or it is a standby.
REFUSES_WRITES = (
    asyncpg.DiskFullError,
    asyncpg.PostgresSystemError,
    asyncpg.ReadOnlySQLTransactionError,
)
# The database is unreachable, starting, stopping, overloaded or read-only: likely temporary, worth a retry.
PASSING = (
    *REFUSES_WRITES,
    OutageError,
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    # What the driver raises if a connection breaks at certain moments.
    asyncpg.InternalClientError,
    asyncpg.CannotConnectNowError,
    asyncpg.InsufficientResourcesError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    # Two transactions met, again and again: whoever comes back finds the way free.
    CollisionError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
)
