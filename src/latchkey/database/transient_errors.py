"""Transactions and LISTEN, with the driver's errors translated, so that callers can tell an outage from a refusal or a
collision without knowing the driver. And a check that the database accepts writes."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import asyncpg

from latchkey.database.errors import CollisionError, MovedError, OutageError, StatementRefusedError
from latchkey.database.pool import Connection, Database
from latchkey.database.sql import query

# Two transactions created the same row, or deadlocked, or one deleted what the other refers to.
_COLLISIONS = (
    asyncpg.UniqueViolationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.ForeignKeyViolationError,
)


@asynccontextmanager
async def hot_transaction(database: Database) -> AsyncIterator[Connection]:
    """A transaction that raises CollisionError if it collides, in a statement or when it commits."""
    try:
        async with database.transaction(hot=True) as connection:
            yield connection
    except _COLLISIONS as error:
        raise CollisionError(str(error)) from error


# The database answers, but refuses changes: its disk is full or broken, or it is a standby.
REFUSES_WRITES = (asyncpg.DiskFullError, asyncpg.PostgresSystemError, asyncpg.ReadOnlySQLTransactionError)
# The server is gone, stopping, starting, overloaded or read-only, or two transactions collided.
_OUTAGES = (
    *REFUSES_WRITES,
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.TransactionRollbackError,
    asyncpg.LockNotAvailableError,
    asyncpg.InternalClientError,
)
# Likely temporary, worth a retry. Of two transactions that met again and again, whoever comes back finds the way free.
PASSING = (*_OUTAGES, OutageError, CollisionError)

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


@contextmanager
def translated_errors() -> Iterator[None]:
    try:
        yield
    except asyncpg.SerializationError as error:
        raise MovedError(str(error)) from error
    except _OUTAGES as error:
        raise OutageError(str(error) or type(error).__name__) from error
    except asyncpg.PostgresError as error:
        raise StatementRefusedError(str(error) or type(error).__name__) from error


def translates_errors(
    function: Callable[_Parameters, Coroutine[Any, Any, _Result]],
) -> Callable[_Parameters, Coroutine[Any, Any, _Result]]:
    """Decorates a storage function that takes a `Database` and manages its own transaction."""

    @wraps(function)
    async def translating(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        with translated_errors():
            return await function(*args, **kwargs)

    return translating


@asynccontextmanager
async def transaction(database: Database) -> AsyncIterator[Connection]:
    """A transaction in which every driver error, including those of its commit, is translated."""
    with translated_errors():
        async with database.transaction() as connection:
            yield connection


@asynccontextmanager
async def listening(database: Database, channel: str, heard: Callable[[str], None]) -> AsyncIterator[asyncio.Event]:
    """LISTEN: call `heard` with the payload of each notification.

    Uses its own connection, outside the pool. The event is set when the connection is lost.
    """
    lost = asyncio.Event()
    with translated_errors():
        connection = await database.connect("latchkey listening")
        try:
            connection.add_termination_listener(lambda _: lost.set())
            await connection.add_listener(channel, lambda *notified: heard(str(notified[-1])))
            yield lost
        finally:
            connection.terminate()


# Readiness may be polled often. A probe costs about 3 ms and one commit, so its result is reused for a second.
_LASTS_SECONDS = 1.0


class WriteProbe:
    """Checks that the database accepts writes. With a full disk, or on a standby, reads still work."""

    def __init__(self, database: Database, lasts_seconds: float = _LASTS_SECONDS) -> None:
        self._database = database
        self._lasts = lasts_seconds
        self._lock = asyncio.Lock()
        self._known: tuple[float, Exception | None] | None = None

    async def check(self) -> None:
        """Raises the error of the last probe, which is at most a second old."""
        async with self._lock:
            if self._known is None or time.monotonic() - self._known[0] >= self._lasts:
                try:
                    await self._write()
                except Exception as error:
                    self._known = time.monotonic(), error
                else:
                    self._known = time.monotonic(), None
            if self._known[1] is not None:
                raise self._known[1].with_traceback(None)

    async def _write(self) -> None:
        async with self._database.transaction() as connection:
            # Little memory, so that the query has to write a temporary file.
            await connection.execute("set local work_mem = '64kB'")
            if await connection.fetchval(query("write_probe")):
                raise asyncpg.ReadOnlySQLTransactionError("the database is read-only")
