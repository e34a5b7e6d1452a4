"""The database: SQLite in a file by default, PostgreSQL by URL."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec
from sqlalchemy import ARRAY, JSON, URL, ColumnElement, String, any_, bindparam, event, func, make_url, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

T = TypeVar("T")

BUSY_TIMEOUT_MS = 20_000
STATEMENT_TIMEOUT_MS = 30_000
CONNECTIONS = 10
TRIES = 5
_WRITES = "latchkey_writes"
# Serialization failure, deadlock, lock not available.
_COLLISIONS = {"40001", "40P01", "55P03"}


class Database:
    def __init__(self, url: str) -> None:
        self.url = checked_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.engine = _sqlite(self.url) if self.is_sqlite else _postgresql(self.url)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """One consistent read-only snapshot."""
        async with self.engine.connect() as connection:
            yield connection

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """One transaction. SQLite allows one writer at a time, from its first statement on."""
        async with self.engine.connect() as connection:
            await connection.execution_options(**{_WRITES: True})
            async with connection.begin():
                yield connection

    async def write(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """Runs the work in one transaction, and retries after a collision with another."""
        for tries_left in reversed(range(TRIES)):
            try:
                async with self.writing() as connection:
                    return await work(connection)
            except DBAPIError as error:
                if not tries_left or not is_collision(error):
                    raise
            await asyncio.sleep(random.uniform(0.005, 0.05))  # noqa: S311 - jitter, not a secret
        raise AssertionError("unreachable")

    def any_of(self, column: ColumnElement[str], name: str = "ids") -> ColumnElement[bool]:
        """Whether the column is in the list given as the parameter `name`. One statement for any length of the list:
        SQLAlchemy writes an IN differently for every length, and PostgreSQL would plan each of them."""
        if self.is_sqlite:
            listed = func.json_each(bindparam(name, type_=JSON)).table_valued("value")
            return column.in_(select(listed.c.value))
        return column == any_(bindparam(name, type_=ARRAY(String)))

    def insert(self, table: Any) -> Any:
        """An INSERT with ON CONFLICT, which SQLAlchemy has separately for each database."""
        return sqlite.insert(table) if self.is_sqlite else postgresql.insert(table)

    async def close(self) -> None:
        await self.engine.dispose()


def is_collision(error: DBAPIError) -> bool:
    code = getattr(error.orig, "sqlstate", None)
    return code in _COLLISIONS or "database is locked" in str(error.orig)


def checked_url(text: str) -> URL:
    """The address with its driver; ValueError if it cannot work."""
    url = make_url(text)
    drivers = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg", "postgres": "postgresql+asyncpg"}
    if url.get_backend_name() not in drivers:
        raise ValueError(f"{url.get_backend_name()} is not supported; use sqlite:///file.db or postgresql://host/name.")
    if url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:"):
        raise ValueError("SQLite needs a file: what is kept in memory does not survive a restart.")
    return url.set(drivername=drivers[url.get_backend_name()])


def _sqlite(url: URL) -> AsyncEngine:
    engine = create_async_engine(url, **_options())

    @event.listens_for(engine.sync_engine, "connect")
    def connected(connection: Any, _: Any) -> None:
        # The driver must not begin transactions itself: it would begin them deferred, that is, as readers.
        connection.isolation_level = None
        cursor = connection.cursor()
        # FULL: a 200 is sent only after the commit is on disk. WAL: readers never wait for a writer.
        for setting in (
            f"busy_timeout={BUSY_TIMEOUT_MS}",
            "journal_mode=WAL",
            "synchronous=FULL",
            "foreign_keys=ON",
            "temp_store=MEMORY",
        ):
            cursor.execute(f"PRAGMA {setting}")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def begun(connection: Any) -> None:
        writes = connection.get_execution_options().get(_WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _postgresql(url: URL) -> AsyncEngine:
    return create_async_engine(
        url,
        pool_size=CONNECTIONS,
        max_overflow=0,
        pool_pre_ping=True,
        connect_args={
            "server_settings": {
                "application_name": "latchkey consumer",
                "statement_timeout": str(STATEMENT_TIMEOUT_MS),
                "lock_timeout": "10000",
            }
        },
        **_options(),
    )


def _options() -> dict[str, Any]:
    return {
        "json_serializer": lambda value: msgspec.json.encode(value).decode(),
        "json_deserializer": msgspec.json.decode,
    }
