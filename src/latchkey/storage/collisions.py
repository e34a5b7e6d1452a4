"""Transactions that change customers, and are retried after a collision with another transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from latchkey.storage.database import Connection, Database
from latchkey.storage.errors import CollisionError

# Two transactions created the same row, or deadlocked, or one deleted what the other refers to.
_COLLISIONS = (
    asyncpg.UniqueViolationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.ForeignKeyViolationError,
)


@asynccontextmanager
async def transaction(database: Database) -> AsyncIterator[Connection]:
    """A transaction that raises CollisionError if it collides, in a statement or when it commits."""
    try:
        async with database.transaction(hot=True) as connection:
            yield connection
    except _COLLISIONS as error:
        raise CollisionError(str(error)) from error
