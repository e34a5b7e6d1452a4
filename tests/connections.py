"""Single connections to a database, closed at the end of a block."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

import asyncpg

from latchkey.database.migrate import migrate
from latchkey.database.pool import connect


@asynccontextmanager
async def connected(
    connecting: Awaitable[asyncpg.Connection[asyncpg.Record]],
) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await connecting
    try:
        yield connection
    finally:
        await connection.close()


async def migrated(url: str) -> None:
    async with connected(connect(url)) as connection:
        await migrate(connection)
