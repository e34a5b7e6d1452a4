"""The hot pool: connections that stay at hand between the statements of the hot paths.

The driver's own acquiring and releasing takes 41 µs of the event loop's time, twice as much as sending a short
statement and decoding its rows. So a connection that was used without an error is not released but kept for the next
user, unless somebody waits for one. At most half of the pool is kept: the driver closes the others when they
are idle for long.
"""

from __future__ import annotations

from time import monotonic
from types import TracebackType
from typing import Any

import asyncpg
from asyncpg.pool import PoolConnectionProxy

# A connection that nobody used for so long may have been cut by something on the way. The pool thinks so too.
IDLE_SECONDS = 300.0


class AtHand:
    def __init__(self, pool: asyncpg.Pool[asyncpg.Record]) -> None:
        self.pool = pool
        self.most = -(-pool.get_max_size() // 2)
        # Each with the time it was put here. The last one is used next, so that the others fall idle.
        self.kept: list[tuple[PoolConnectionProxy[asyncpg.Record], float]] = []
        # How many wait for a connection from the pool.
        self.waiting = 0

    async def release_all(self) -> None:
        # From now on nothing is kept: the pool closes.
        self.most = 0
        while self.kept:
            await self.pool.release(self.kept.pop()[0])

    async def fetch(self, query: str, *arguments: Any) -> list[asyncpg.Record]:
        async with HeldConnection(self) as connection:
            return await connection.fetch(query, *arguments)

    async def fetchrow(self, query: str, *arguments: Any) -> asyncpg.Record | None:
        async with HeldConnection(self) as connection:
            return await connection.fetchrow(query, *arguments)

    async def fetchval(self, query: str, *arguments: Any) -> Any:
        async with HeldConnection(self) as connection:
            return await connection.fetchval(query, *arguments)

    async def execute(self, query: str, *arguments: Any) -> str:
        async with HeldConnection(self) as connection:
            return await connection.execute(query, *arguments)


class HeldConnection:
    __slots__ = ("_at_hand", "_connection", "_pool")

    def __init__(self, at_hand: AtHand) -> None:
        self._at_hand = at_hand
        self._pool = at_hand.pool

    async def __aenter__(self) -> PoolConnectionProxy[asyncpg.Record]:
        at_hand = self._at_hand
        while at_hand.kept:
            self._connection, since = at_hand.kept.pop()
            if is_usable(self._connection):
                if monotonic() - since < IDLE_SECONDS:
                    return self._connection
                self._connection.terminate()
            await self._pool.release(self._connection)
        at_hand.waiting += 1
        try:
            self._connection = await self._pool.acquire()
        finally:
            at_hand.waiting -= 1
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        at_hand = self._at_hand
        if kind is None and not at_hand.waiting and len(at_hand.kept) < at_hand.most and is_usable(self._connection):
            at_hand.kept.append((self._connection, monotonic()))
        else:
            await self._pool.release(self._connection)


def is_usable(connection: PoolConnectionProxy[asyncpg.Record]) -> bool:
    try:
        return not connection.is_closed() and not connection.is_in_transaction()
    except asyncpg.InterfaceError:
        # The server has closed the connection, and the pool has taken it back.
        return False
