"""Finds the primary among several hosts in the database's address: the one that accepts writes, never an old one.

A promotion begins a timeline with a higher number, so a server below the highest number seen is an old primary.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from operator import itemgetter
from typing import Any

from latchkey.database_address import DatabaseAddress, Host

# How long a host may take to connect and answer, and how long we wait for the others once one accepts writes.
PATIENCE_SECONDS = 3.0
OTHERS_SECONDS = 1.0
# Connections are replaced after this time, so that an old primary which still answers is not used for longer.
LIFETIME_SECONDS = 30
_TIMELINE = "select ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint"


class PrimaryHost:
    def __init__(self, address: DatabaseAddress, connect: Callable[..., Awaitable[Any]]) -> None:
        self._hosts = address.hosts
        # The driver's function.
        self._connect = connect
        self._highest = 0

    async def connect(self, options: Mapping[str, Any]) -> Any:
        """A new connection to the primary. ConnectionError if there is none."""
        found: list[tuple[int, Any]] = []
        asking = [asyncio.create_task(self._ask(host, options, found)) for host in self._hosts]
        try:
            await asyncio.wait(asking, timeout=OTHERS_SECONDS)
            while not found and not all(task.done() for task in asking):
                await asyncio.wait([task for task in asking if not task.done()], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
            best = max(found, key=itemgetter(0), default=(0, None))
            for timeline, connection in found:
                if connection is not best[1] or timeline < self._highest:
                    connection.terminate()
        if best[1] is None or best[0] < self._highest:
            raise ConnectionError("none of the database's hosts is the primary now")
        self._highest = best[0]
        return best[1]

    async def _ask(self, host: Host, options: Mapping[str, Any], found: list[tuple[int, Any]]) -> None:
        """Adds a connection that accepts writes, with its timeline."""
        connection = None
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                connection = await self._connect(host.url, target_session_attrs="read-write", **options)
                timeline = await connection.fetchval(_TIMELINE)
        except BaseException as error:
            if connection is not None:
                connection.terminate()
            # An Exception means: unreachable, a standby, or no answer in time.
            if not isinstance(error, Exception):
                raise
        else:
            found.append((timeline, connection))
