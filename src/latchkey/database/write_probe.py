"""Checks that the database accepts writes. With a full disk, or on a standby, reads still work."""

import asyncio
import time

import asyncpg

from latchkey.database.pool import Database
from latchkey.database.sql import query

# Readiness may be polled often. A probe costs about 3 ms and one commit, so its result is reused for a second.
_LASTS_SECONDS = 1.0


class WriteProbe:
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
