"""Numbered migrations, each replayed once, in order, in its own transaction, by one process at a time."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import asyncpg

from latchkey.storage.errors import DatabaseBusyError, SchemaNotMigratedError, SchemaTooNewError

_FILE = re.compile(r"^(?P<version>\d{4})_(?P<name>[a-z0-9_]+)\.sql$")
# Any number will do, as long as nobody else in this database uses it: "latchkey" in ASCII, the first eight bytes.
_LOCK = int.from_bytes(b"latchkey", "big", signed=True)

# A migration that waits for a table's lock makes everybody else wait behind it: it gives up early and is tried again.
LOCK_TIMEOUT_MS = 5_000
STATEMENT_TIMEOUT_MS = 10 * 60_000
# How long the second of two processes waits for the first to finish.
TURN_TIMEOUT_MS = 5 * 60_000


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    text: str

    @property
    def label(self) -> str:
        return f"{self.version:04d}_{self.name}"


@cache
def migrations() -> tuple[Migration, ...]:
    found = [
        Migration(int(match["version"]), match["name"], file.read_text(encoding="utf-8"))
        for file in (files("latchkey.storage") / "migrations").iterdir()
        if (match := _FILE.match(file.name))
    ]
    found.sort(key=lambda migration: migration.version)
    if [migration.version for migration in found] != list(range(1, len(found) + 1)):
        raise ValueError("Migrations must be numbered 0001, 0002, ... without a gap or a repetition.")
    return tuple(found)


async def applied(connection: Any) -> int:
    """The version the database is at; 0 when it is empty."""
    if await connection.fetchval("select to_regclass('schema_migrations')") is None:
        return 0
    version: int | None = await connection.fetchval("select max(version) from schema_migrations")
    return version or 0


async def pending(connection: Any) -> list[Migration]:
    """What `migrate` would do now."""
    known = migrations()
    version = await applied(connection)
    if version > len(known):
        raise SchemaTooNewError(
            f"The database is at schema version {version}, this Latchkey knows only {len(known)}. "
            "Install the Latchkey that made it, or a newer one; going back is not possible."
        )
    return [migration for migration in known if migration.version > version]


async def require_current(connection: Any) -> None:
    """Stop here unless the database has exactly the schema this code expects."""
    waiting = await pending(connection)
    if waiting:
        raise SchemaNotMigratedError(
            f"The database's schema is {len(waiting)} migration(s) behind (next: {waiting[0].label}). "
            "Run `latchkey migrate`."
        )


async def migrate(connection: Any, *, told: Callable[[Migration], None] = lambda _: None) -> list[Migration]:
    """Bring the database up to date; `told` hears of each step before it runs. Safe to run twice, or twice at once."""
    await connection.execute(f"set lock_timeout = {TURN_TIMEOUT_MS}")
    try:
        await connection.execute("select pg_advisory_lock($1)", _LOCK)
    except asyncpg.LockNotAvailableError as error:
        raise DatabaseBusyError(
            "Another process has been migrating this database for minutes. Look at it first."
        ) from error
    try:
        await connection.execute(
            "create table if not exists schema_migrations ("
            " version integer primary key, name text not null, applied_at timestamptz not null default now())"
        )
        done = await pending(connection)
        for migration in done:
            told(migration)
            await _apply(connection, migration)
        return done
    finally:
        if not connection.is_closed():
            await connection.execute("select pg_advisory_unlock($1)", _LOCK)
            await connection.execute("reset lock_timeout")


async def _apply(connection: Any, migration: Migration) -> None:
    try:
        async with connection.transaction():
            await connection.execute(f"set local lock_timeout = {LOCK_TIMEOUT_MS}")
            await connection.execute(f"set local statement_timeout = {STATEMENT_TIMEOUT_MS}")
            await connection.execute(migration.text)
            await connection.execute(
                "insert into schema_migrations (version, name) values ($1, $2)", migration.version, migration.name
            )
    except asyncpg.LockNotAvailableError as error:
        raise DatabaseBusyError(
            f"{migration.label} waited {LOCK_TIMEOUT_MS // 1000} s for a table that is in use and changed nothing. "
            "Run `latchkey migrate` again."
        ) from error
