"""The database: SQLite in a file by default, PostgreSQL by URL."""

import asyncio
import random
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from operator import itemgetter
from typing import Any, TypeVar

import msgspec
from sqlalchemy import ARRAY, JSON, URL, ColumnElement, String, any_, bindparam, event, func, make_url, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DataError, DBAPIError, DisconnectionError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from latchkey.database_address import DatabaseAddress, Host, parse

T = TypeVar("T")

BUSY_TIMEOUT_MS = 20_000
STATEMENT_TIMEOUT_MS = 30_000
CONNECTIONS = 10
TRIES = 5
# How long a connection may have been idle to be used without a check.
UNCHECKED_SECONDS = 1.0
_WRITES = "latchkey_writes"
_RETURNED_AT = "latchkey_returned_at"
# How long a host may take to connect and answer, and how long we wait for the others once one accepts writes.
PATIENCE_SECONDS = 3.0
OTHERS_SECONDS = 1.0
# Connections are replaced after this time, so that an old primary which still answers is not used for longer.
LIFETIME_SECONDS = 30
_TIMELINE = "select ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint"
# By the first two characters of PostgreSQL's code, its class.
_ERRORS: dict[str, type[DBAPIError]] = {"22": DataError, "23": IntegrityError}
# Serialization failure, deadlock, lock not available.
_COLLISIONS = {"40001", "40P01", "55P03"}


class ConsumerDatabase:
    def __init__(self, url: str) -> None:
        self.url = checked_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.engine = _sqlite(self.url) if self.is_sqlite else _postgresql(self.url, parse(url))

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """One consistent read-only snapshot."""
        async with self.engine.connect() as connection, connection.begin(), self._transaction(connection):
            yield connection

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """One transaction. SQLite allows one writer at a time, from its first statement on."""
        async with self.engine.connect() as connection:
            await connection.execution_options(**{_WRITES: True})
            async with connection.begin(), self._transaction(connection):
                yield connection

    @asynccontextmanager
    async def _transaction(self, connection: AsyncConnection) -> AsyncIterator[None]:
        """A transaction of PostgreSQL. SQLAlchemy's would begin with its own first statement, and most of ours are not
        sent through it. That of SQLite begins with SQLAlchemy's (`_sqlite`)."""
        if self.is_sqlite:
            yield
            return
        await self.fetch(connection, "begin")
        try:
            yield
        except Exception:
            with suppress(DBAPIError):
                await self.fetch(connection, "rollback")
            raise
        except BaseException:
            # Cancelled: the statement may still run, so the connection is not used again.
            await connection.invalidate()
            raise
        await self.fetch(connection, "commit")

    async def write(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """Runs the work in one transaction, and retries after a collision with another, or if the connection is lost.
        In the second case the first try may have been committed, so the work must be one that can be repeated."""
        for tries_left in reversed(range(TRIES)):
            try:
                async with self.writing() as connection:
                    return await work(connection)
            except DBAPIError as error:
                if not tries_left or not (is_collision(error) or error.connection_invalidated):
                    raise
            await asyncio.sleep(random.uniform(0.005, 0.05))  # noqa: S311 - jitter, not a secret
        raise AssertionError("unreachable")

    async def fetch(
        self, connection: AsyncConnection, sql: str, values: tuple[Any, ...] | list[tuple[Any, ...]] = ()
    ) -> Sequence[Sequence[Any]]:
        """The rows, if any, of a statement in the driver's syntax, in the connection's transaction. With a list of
        values, SQLite runs it for each of them. The driver is called directly: through SQLAlchemy a statement costs
        about as much again."""
        raw = await connection.get_raw_connection()
        driver: Any = raw.driver_connection
        rows: Sequence[Sequence[Any]] = ()
        try:
            if isinstance(values, list):
                await driver.executemany(sql, values)
            elif self.is_sqlite:
                # One visit to the driver's thread; SQLAlchemy needs four (cursor, execute, fetch, close).
                rows = await driver.execute_fetchall(sql, values)
            elif values:
                rows = await driver.fetch(sql, *values)
            else:
                await driver.execute(sql)
        except sqlite3.Error as error:
            raise DBAPIError.instance(sql, None, error, sqlite3.Error) from error
        except TimeoutError:
            # The server may still run it.
            await connection.invalidate()
            raise
        except Exception as error:
            if not self.is_sqlite and driver.is_closed():
                # Fails, so SQLAlchemy learns that the connection is lost, and replaces all that are as old.
                await connection.exec_driver_sql("select 1")
            if not hasattr(error, "sqlstate"):
                raise
            # As SQLAlchemy would raise it.
            raise _ERRORS.get(str(error.sqlstate)[:2], DBAPIError)(sql, None, error) from error
        return rows

    def listed(self, ids: Collection[str]) -> Any:
        """A list as the driver takes it for `any_of`."""
        return msgspec.json.encode(sorted(ids)).decode() if self.is_sqlite else sorted(ids)

    def any_of(self, column: ColumnElement[str]) -> ColumnElement[bool]:
        """Whether the column is in the list given as the parameter `ids`. One statement for any length of the list:
        SQLAlchemy writes an IN differently for every length, and PostgreSQL would plan each of them."""
        if self.is_sqlite:
            listed = func.json_each(bindparam("ids", type_=JSON)).table_valued("value")
            return column.in_(select(listed.c.value))
        return column == any_(bindparam("ids", type_=ARRAY(String)))

    def insert(self, table: Any) -> Any:
        """An INSERT with ON CONFLICT, which SQLAlchemy has separately for each database."""
        return sqlite.insert(table) if self.is_sqlite else postgresql.insert(table)

    def upsert(self, table: Any, *names: str) -> Any:
        """An INSERT that overwrites these columns of a row with the same key, or all of them."""
        insert, key, columns = self.insert(table), table.primary_key.columns.keys(), table.columns.keys()
        chosen = names or [name for name in columns if name not in key]
        return insert.on_conflict_do_update(index_elements=key, set_={name: insert.excluded[name] for name in chosen})

    async def close(self) -> None:
        await self.engine.dispose()


def is_collision(error: DBAPIError) -> bool:
    code = getattr(error.orig, "sqlstate", None)
    return code in _COLLISIONS or "database is locked" in str(error.orig)


def checked_url(text: str) -> URL:
    """The address with its driver; ValueError if it cannot work. Of several hosts, with the first."""
    if text.startswith(("postgresql://", "postgres://")):
        text = parse(text).hosts[0].url
    url = make_url(text)
    drivers = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg", "postgres": "postgresql+asyncpg"}
    if url.get_backend_name() not in drivers:
        raise ValueError(f"{url.get_backend_name()} is not supported; use sqlite:///file.db or postgresql://host/name.")
    if url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:"):
        raise ValueError("SQLite needs a file: what is kept in memory does not survive a restart.")
    return url.set(drivername=drivers[url.get_backend_name()])


def _use_wal(cursor: Any) -> None:
    """SQLite does not wait for a lock here, whatever the timeout; another process may do the same to a new file."""
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _sqlite(url: URL) -> AsyncEngine:
    # The pool rolls back what a request that was cancelled during BEGIN has left open: it would lock out all writers.
    engine = create_async_engine(url, **_options())

    @event.listens_for(engine.sync_engine, "connect")
    def connected(connection: Any, _: Any) -> None:
        # The driver must not begin transactions itself: it would begin them deferred, that is, as readers.
        connection.isolation_level = None
        cursor = connection.cursor()
        # FULL: a 200 is sent only after the commit is on disk. WAL: readers never wait for a writer.
        cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        _use_wal(cursor)
        for setting in ("synchronous=FULL", "foreign_keys=ON", "temp_store=MEMORY"):
            cursor.execute(f"PRAGMA {setting}")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def begun(connection: Any) -> None:
        sql = "BEGIN IMMEDIATE" if connection.get_execution_options().get(_WRITES) else "BEGIN"
        try:
            connection.connection.dbapi_connection.run_async(lambda driver: driver.execute_fetchall(sql))
        except sqlite3.Error as error:
            raise DBAPIError.instance(sql, None, error, sqlite3.Error) from error

    return engine


def _postgresql(url: URL, address: DatabaseAddress) -> AsyncEngine:
    options: dict[str, Any] = {
        "server_settings": {
            "application_name": "latchkey consumer",
            "statement_timeout": str(STATEMENT_TIMEOUT_MS),
            "lock_timeout": "10000",
        }
    }
    if address.is_cluster:
        # A frozen server does not keep its own time limits.
        options["command_timeout"] = STATEMENT_TIMEOUT_MS / 1000 + 5
    lifetime = LIFETIME_SECONDS if address.is_cluster else -1
    engine = create_async_engine(
        url,
        pool_size=CONNECTIONS,
        max_overflow=0,
        pool_recycle=lifetime,
        # `ConsumerDatabase` begins and ends transactions itself.
        isolation_level="AUTOCOMMIT",
        pool_reset_on_return=None,
        connect_args=options,
        **_options(),
    )
    if address.is_cluster:
        chosen = PrimaryHost(address, engine.sync_engine.dialect.loaded_dbapi.asyncpg.connect)

        @event.listens_for(engine.sync_engine, "do_connect")
        def connecting(_dialect: Any, _record: Any, _arguments: Any, given: dict[str, Any]) -> None:
            given.clear()
            given["async_creator_fn"] = lambda: chosen.connect(options)

    # SQLAlchemy's own check (`pool_pre_ping`) is three round trips before every transaction. A connection that was just
    # in use needs none: if it has broken since, `write` repeats the work, and SQLAlchemy replaces all connections.
    @event.listens_for(engine.sync_engine, "checkin")
    def returned(_: Any, record: Any) -> None:
        record.info[_RETURNED_AT] = time.monotonic()

    @event.listens_for(engine.sync_engine, "checkout")
    def taken(connection: Any, record: Any, _: Any) -> None:
        returned_at = record.info.get(_RETURNED_AT)
        if returned_at is None or time.monotonic() - returned_at < UNCHECKED_SECONDS:
            return
        try:
            engine.sync_engine.dialect.do_ping(connection)
        except Exception as error:
            # The pool opens another connection instead.
            raise DisconnectionError from error

    return engine


def _options() -> dict[str, Any]:
    return {
        "json_serializer": lambda value: msgspec.json.encode(value).decode(),
        "json_deserializer": msgspec.json.decode,
    }


class PrimaryHost:
    """Finds the primary among several hosts: the one that accepts writes, never an old one. A promotion begins a
    timeline with a higher number, so a server below the highest number seen is an old primary."""

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
