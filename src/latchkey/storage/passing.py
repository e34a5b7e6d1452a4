"""Failures that are likely over soon. Apart from the errors themselves, which a machine without a driver knows too."""

from __future__ import annotations

import asyncpg

from latchkey.storage.errors import OutageError

# The database answers, but takes no changes: its disk is full or broken, or it is a standby.
REFUSES_WRITES = (
    asyncpg.DiskFullError,
    asyncpg.PostgresSystemError,
    asyncpg.ReadOnlySQLTransactionError,
)
# The database is away, starting, stopping, overrun or takes no changes: likely over soon, and worth another try.
PASSING = (
    *REFUSES_WRITES,
    OutageError,
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    # What the driver says of a connection that broke at an unlucky moment.
    asyncpg.InternalClientError,
    asyncpg.CannotConnectNowError,
    asyncpg.InsufficientResourcesError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
)
