"""Databases for tests, each copied from a template and reset after a test instead of being dropped.

A copy, its connections and its removal take about 80 ms; a reset takes about 5. A database whose schema was changed,
which somebody is still connected to, or which has grown large is dropped, and the next test gets a new copy.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg

from latchkey.database.embedded.postgres import EmbeddedServer
from latchkey.database.pool import Database
from latchkey.database.sticky_connections import AtHand
from latchkey.subjects.demo.usecases.project import Demo
from tests.distributed import DistributedShelf
from tests.patience import PATIENCE

_numbers = itertools.count(1)

# Deleted rows leave their space behind, so a database is not used forever.
USES = 100
LARGEST = 16 * 1024 * 1024

# Changes whenever a table, an index, a constraint, a function, the statistics or a setting of the database changes.
_SHAPE = """
select array[
    (select count(*) from pg_class where relnamespace = 'public'::regnamespace),
    (select max(xmin::text::bigint) from pg_class where relnamespace = 'public'::regnamespace),
    (select sum(reltuples)::bigint from pg_class where relnamespace = 'public'::regnamespace),
    (select max(xmin::text::bigint) from pg_proc where pronamespace = 'public'::regnamespace),
    (select count(*) from pg_proc where pronamespace = 'public'::regnamespace),
    (select count(*) from pg_constraint),
    (select count(*) from pg_trigger),
    (select count(*) from pg_db_role_setting)
]
"""
_CONNECTED = """
select count(*), count(*) filter (where state <> 'idle') from pg_stat_activity
where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
"""
# All that can be written: what PostgreSQL computes from other columns comes by itself.
_COLUMNS = """
select string_agg(quote_ident(attname), ', ' order by attnum) from pg_attribute
where attrelid = quote_ident($1)::regclass and attnum > 0 and not attisdropped and attgenerated = ''
"""
_SIZE = "select sum(pg_relation_size(oid)) from pg_class where relnamespace = 'public'::regnamespace"

# Of the connection that resets. Foreign keys need no check: everything goes, and what comes back was there before. This
# is set for the whole connection, because PostgreSQL forgets its plans whenever it changes.
RESETTING = {"lock_timeout": "10000", "session_replication_role": "replica"}


async def copy(administration: asyncpg.Connection[asyncpg.Record], name: str, template: str) -> None:
    await administration.execute(f"create database {name} template {template} strategy file_copy")


async def drop(administration: asyncpg.Connection[asyncpg.Record], name: str) -> None:
    await administration.execute(f"drop database {name} with (force)")


@dataclass(frozen=True)
class Contents:
    """What a template contains, as the statements that empty every table and fill those that were not empty. They are a
    function of the connection that resets, which plans them once: with a COPY for each table a reset took twice as
    long."""

    restoring: str

    @classmethod
    async def read(cls, connection: asyncpg.Connection[asyncpg.Record]) -> Contents:
        # Partitions, and not the tables they belong to.
        tables = [
            row[0]
            for row in await connection.fetch(
                "select relname from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'"
            )
        ]
        statements = [f'delete from "{table}"' for table in tables]
        for name, last in await connection.fetch(
            "select sequencename, last_value from pg_sequences where schemaname = 'public'"
        ):
            statements.append(f"perform setval('\"{name}\"', {last or 1}, {last is not None})")
        for table in tables:
            rows = await connection.fetchval(f"select string_agg(quote_literal(one::text), ', ') from \"{table}\" one")
            if rows is not None:
                columns = await connection.fetchval(_COLUMNS, table)
                statements.append(
                    f'insert into "{table}" ({columns}) overriding system value '
                    f'select {columns} from unnest(array[{rows}]::"{table}"[])'
                )
        return cls("; ".join(statements))

    async def prepare(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        await connection.execute(
            "create function pg_temp.restore_contents() returns void language plpgsql "
            f"as $restoring$ begin {self.restoring}; end $restoring$"
        )

    async def restore(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        await connection.execute("select pg_temp.restore_contents()")


class Kept:
    """One database with its pool of connections, and a connection of our own to reset it."""

    def __init__(self, name: str, url: str, connection: asyncpg.Connection[asyncpg.Record], shape: list[int]) -> None:
        self.name = name
        self.url = url
        self._connection = connection
        self._shape = shape
        self._opened = Database(url, max_size=12)
        self._uses = 0

    async def open(self) -> Database:
        """An object of its own for every test: what a test replaces on it is gone with the test."""
        await self._opened.open()
        database = Database(self.url, max_size=12)
        database._pool, database._hot = self._opened.pool, AtHand(self._opened.hot.pool)
        # A test leaves no connection in use.
        database._hot.most = 0
        self._uses += 1
        return database

    async def reset(self, lent: Database, contents: Contents) -> bool:
        """False if this database cannot be used again."""
        pool = self._opened.pool
        if lent._pool is not pool:
            await lent.close()
            return False
        pools = (pool, self._opened.hot.pool)
        if self._uses >= USES or any(one.is_closing() or one.get_idle_size() != one.get_size() for one in pools):
            return False
        if not await _has_connections(self._connection, sum(one.get_size() for one in pools)):
            return False
        if await self._connection.fetchval(_SHAPE) != self._shape:
            return False
        if await self._connection.fetchval(_SIZE) > LARGEST:
            return False
        await contents.restore(self._connection)
        return True

    async def close(self) -> None:
        await self._opened.close()
        await self._connection.close()


class Shelf:
    """Databases with the contents of one template, each lent to one test at a time."""

    def __init__(
        self, server: EmbeddedServer, administration: asyncpg.Connection[asyncpg.Record], template: str
    ) -> None:
        self._server = server
        self._administration = administration
        self._template = template
        self._contents: Contents | None = None
        self._free: list[Kept] = []

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[Database]:
        """An open database as the template is, until the end of the block."""
        kept = self._free.pop() if self._free else await self._make()
        others = asyncio.all_tasks()
        database = await kept.open()
        try:
            yield database
        finally:
            # A task that outlives the test could still write.
            alone = asyncio.all_tasks() - others <= {asyncio.current_task()}
            assert self._contents is not None
            if alone and await kept.reset(database, self._contents):
                self._free.append(kept)
            else:
                await self._remove(kept)

    async def close(self) -> None:
        for kept in self._free:
            await self._remove(kept)

    async def _make(self) -> Kept:
        name = f"shelf_{next(_numbers)}"
        await copy(self._administration, name, self._template)
        connection = await asyncpg.connect(self._server.url(name), server_settings=RESETTING)
        self._contents = self._contents or await Contents.read(connection)
        await self._contents.prepare(connection)
        return Kept(name, self._server.url(name), connection, await connection.fetchval(_SHAPE))

    async def _remove(self, kept: Kept) -> None:
        await kept.close()
        await drop(self._administration, kept.name)


async def _has_connections(connection: asyncpg.Connection[asyncpg.Record], count: int) -> bool:
    """Whether so many others are connected and idle. The process of a closed connection is still there for a moment."""
    for _ in range(20):
        row = await connection.fetchrow(_CONNECTED)
        if row is not None and tuple(row) == (count, 0):
            return True
        await asyncio.sleep(0.01)
    return False


async def drained(database: Database, travelling: Callable[[], int] = lambda: 0) -> float:
    """Waits until no delivery is pending, and gives the seconds it took. Without a limit: it fails if there was no
    progress for long."""
    began, least, seen = time.monotonic(), sys.maxsize, time.monotonic()
    while left := travelling() + await database.pool.fetchval("select coalesce(sum(waiting), 0) from lanes"):
        if left < least:
            least, seen = left, time.monotonic()
        assert time.monotonic() - seen < PATIENCE, f"{left} deliveries are pending"
        await asyncio.sleep(0.05)
    return round(time.monotonic() - began, 1)


async def hold_minute(database: Database) -> None:
    """The clock of the rate limit stands still in this database: no minute ends because a busy machine is slow."""
    await database.pool.execute("""
        create schema held;
        create function held.clock_timestamp() returns timestamptz language sql
            return timestamptz '2027-01-15 12:00:00.1+00';
        alter function take_requests set search_path = held, pg_catalog, public;
    """)


@dataclass(frozen=True)
class DemoShelf:
    """Databases that have the demo project already, and the demo's keys."""

    shelf: Shelf | DistributedShelf
    demo: Demo
