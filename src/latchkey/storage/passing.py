"""Failures that are likely over soon. Apart from the errors themselves, which a machine without a driver knows too."""

from __future__ import annotations

import asyncpg

from latchkey.storage.errors import DatabaseUnreachableError

# The database is away, starting, stopping or overrun: likely over soon, and worth another try.
PASSING = (
    DatabaseUnreachableError,
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
)
