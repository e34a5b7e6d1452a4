"""The tests of the product on a distributed database: with LATCHKEY_TEST_ON_CITUS set to anything, the databases that
tests are lent are on the cluster that `citus/cluster.py` finds. A database is made when none is free, and emptied
before each test."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from io import BytesIO
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg

from latchkey.database.distribution.distribute import distribute
from latchkey.database.distribution.statements import TABLES
from latchkey.database.migrate import migrate
from latchkey.database.pool import Database, connect
from latchkey.database.sticky_connections import AtHand
from tests.citus.cluster import Cluster, cluster
from tests.connections import connected

# Each node empties its own tables, shards and all: a hundred times faster than asking the coordinator to.
_EMPTY = """
do $$
declare
    one record;
begin
    set local session_replication_role = replica;
    for one in
        select oid::regclass::text as name from pg_class
        where relnamespace = 'public'::regnamespace and relkind = 'r'
            and oid not in (select logicalrelid from pg_dist_partition)
    loop
        execute 'delete from ' || one.name;
    end loop;
end $$
"""


# Changes when a test creates, drops or changes a table, such as a partition.
_SHAPE = """
select array[
    (select count(*) from pg_class where relnamespace = 'public'::regnamespace),
    (select count(*) from pg_dist_partition),
    (select count(*) from pg_trigger)
]
"""

# Of the connections that empty tables. What a test has left locked is an error, and nothing to wait for.
_EMPTYING = {"citus.override_table_visibility": "off", "lock_timeout": "30000"}

# Few: each is a set of tables to make.
SHARDS = 4


def is_asked_for() -> bool:
    return bool(os.environ.get("LATCHKEY_TEST_ON_CITUS"))


# How many connections of the database wait for a lock.
WAITING = (
    "select count(*) from citus_lock_waits"
    if is_asked_for()
    else "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
)


class Spread:
    """One distributed database, with the rows it has at the beginning of each test."""

    def __init__(self, cluster: Cluster, url: str, stack: AsyncExitStack) -> None:
        self._cluster = cluster
        self.url = url
        self._stack = stack
        self._rows: dict[str, bytes] = {}
        self._shape: list[int] = []
        self._opened = Database(url, max_size=8)

    async def keep(self, rows: dict[str, bytes] | None) -> dict[str, bytes]:
        """These rows, or what is in the database now, are there at the beginning of each test."""
        connection = await connect(self.url)
        self._shape = await connection.fetchval(_SHAPE)
        if rows is None:
            rows = {}
            for table in TABLES:
                copied = BytesIO()
                await connection.copy_from_query(f"select * from {table}", output=copied)
                if copied.getvalue():
                    rows[table] = copied.getvalue()
        await connection.close()
        self._rows = rows
        return rows

    async def lend(self) -> Database:
        await self._empty()
        await self._opened.open()
        database = Database(self.url, max_size=8)
        database._pool, database._hot = self._opened.pool, AtHand(self._opened.hot.pool)
        database._hot.most = 0
        database._cluster = self._opened._cluster
        return database

    async def take_back(self, database: Database) -> bool:
        """False if the database cannot be used again."""
        pool = self._opened.pool
        if database._pool is not pool:
            await database.close()
        pools = (pool, self._opened.hot.pool)
        if any(one.is_closing() or one.get_idle_size() != one.get_size() for one in pools):
            await self._opened.close()
        # As in `keep`: other connections of Citus see other tables.
        async with connected(connect(self.url)) as connection:
            return bool(await connection.fetchval(_SHAPE) == self._shape)

    async def close(self) -> None:
        """The database is dropped."""
        await self._opened.close()
        await self._stack.aclose()

    async def _empty(self) -> None:
        name = urlsplit(self.url).path.removeprefix("/")
        for node in self._cluster.nodes:
            async with connected(
                asyncpg.connect(self._cluster.url(name, node), server_settings=_EMPTYING)
            ) as connection:
                await connection.execute(_EMPTY)
        connection = await connect(self.url)
        for table, rows in self._rows.items():
            await connection.copy_to_table(table, source=BytesIO(rows))
        # What `databases.hold_minute` has done.
        await connection.execute("alter function take_requests reset search_path")
        await connection.execute("drop schema if exists held cascade")
        await connection.close()


class DistributedShelf:
    """As `databases.Shelf`."""

    def __init__(self, stack: AsyncExitStack, cluster: Cluster, fill: Callable[[str], Awaitable[None]] | None) -> None:
        self._stack = stack
        self._cluster = cluster
        self._fill = fill
        self._rows: dict[str, bytes] | None = None
        self._free: list[Spread] = []

    @classmethod
    @asynccontextmanager
    async def opened(
        cls, folder: Path, fill: Callable[[str], Awaitable[None]] | None = None
    ) -> AsyncIterator[DistributedShelf]:
        async with AsyncExitStack() as stack:
            shelf = cls(stack, await stack.enter_async_context(cluster(folder)), fill)
            shelf._free.append(await shelf._make())
            yield shelf

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[Database]:
        spread = self._free.pop() if self._free else await self._make()
        database = await spread.lend()
        try:
            yield database
        finally:
            if await spread.take_back(database):
                self._free.append(spread)
            else:
                # Now: each database has a process of Citus on every node, and there is a limit to them.
                await spread.close()

    async def close(self) -> None:
        """What was opened is closed with the cluster."""

    async def _make(self) -> Spread:
        async with AsyncExitStack() as stack:
            url = await stack.enter_async_context(self._cluster.database())
            connection = await connect(url)
            await migrate(connection)
            await distribute(connection, shards=SHARDS)
            await connection.close()
            if self._fill is not None and self._rows is None:
                await self._fill(url)
            spread = Spread(self._cluster, url, stack.pop_all())
        self._stack.push_async_callback(spread.close)
        self._rows = await spread.keep(self._rows)
        return spread
