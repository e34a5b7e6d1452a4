"""The migrations of this code, read from `migrations/`.

    0014_name.sql         runs before processes of this release start; processes of the release before keep working
    0014_name.after.sql   optional; runs when no process of the release before is left

A file that builds an index on an existing table says `create index concurrently`, and holds only such statements.
docs/architecture/database.md says what belongs in which file. A file never changes once it is released.
"""

import asyncio
import re
from collections.abc import Callable, Iterable
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

import asyncpg
from msgspec import Struct, json

from latchkey.database.distribution.nodes import is_distributed
from latchkey.database.errors import DatabaseBusyError, SchemaError
from latchkey.database.pool import wait_for_locks_at_most

_FILE = re.compile(r"^(?P<version>\d{4})_(?P<name>[a-z0-9_]+)(?P<after>\.after)?\.sql$")
_COMMENT = re.compile(r"--.*$", re.MULTILINE)
_INDEX = re.compile(r"create\s+(?:unique\s+)?index\s+concurrently\s+(?P<name>[a-z0-9_]+)\s+on\s", re.IGNORECASE)


class Migration(Struct, frozen=True):
    """One file."""

    version: int
    name: str
    text: str
    after: bool = False

    @property
    def label(self) -> str:
        return f"{self.version:04d}_{self.name}{'.after' if self.after else ''}"

    @property
    def checksum(self) -> str:
        return sha256(self.text.encode()).hexdigest()

    def concurrent_indexes(self) -> list[tuple[str, str]]:
        """The indexes to build outside a transaction, each with its statement."""
        bare = _COMMENT.sub("", self.text)
        if not re.search(r"\bconcurrently\b", bare, re.IGNORECASE):
            return []
        found = []
        for statement in filter(None, map(str.strip, bare.split(";"))):
            match = _INDEX.match(statement)
            if match is None:
                raise ValueError(f"{self.label} builds an index concurrently, so it may hold only such statements.")
            found.append((match["name"], statement))
        return found


@cache
def migrations() -> tuple[Migration, ...]:
    """All of them by number; the after part of a number follows its first part."""
    return in_order(
        Migration(int(match["version"]), match["name"], file.read_text(encoding="utf-8"), bool(match["after"]))
        for file in (files("latchkey.database") / "migrations").iterdir()
        if (match := _FILE.match(file.name))
    )


def in_order(found: Iterable[Migration]) -> tuple[Migration, ...]:
    ordered = sorted(found, key=lambda one: (one.version, one.after))
    first = {migration.version: migration.name for migration in ordered if not migration.after}
    if [migration.version for migration in ordered if not migration.after] != list(range(1, len(first) + 1)):
        raise ValueError("Migrations must be numbered 0001, 0002, ... without a gap or a repetition.")
    for one in ordered:
        if first.get(one.version) != one.name:
            raise ValueError(f"{one.label}.sql needs a {one.version:04d}_{one.name}.sql beside it.")
    return tuple(ordered)


_PIECE = re.compile(r"--[^\n]*|'(?:[^']|'')*'|\$(?P<tag>[a-z_]*)\$.*?\$(?P=tag)\$|;", re.DOTALL | re.IGNORECASE)


def commands(text: str) -> list[str]:
    """The commands of a file, one by one. A distributed database takes no two in one message."""
    found, start = [], 0
    for match in _PIECE.finditer(text):
        if match[0] == ";":
            found.append(text[start : match.start()])
            start = match.end()
    found.append(text[start:])
    return [one.strip() for one in found if _COMMENT.sub("", one).strip()]


# Any number that nothing else in this database uses as an advisory lock: the first eight bytes of "latchkey".
_LOCK = int.from_bytes(b"latchkey", "big", signed=True)

# A migration that waits for a table's lock blocks everybody queued behind it: it gives up early and can be retried.
LOCK_TIMEOUT_MS = 5_000
STATEMENT_TIMEOUT_MS = 10 * 60_000
# How long the second of two processes waits for the first to finish.
TURN_TIMEOUT_MS = 5 * 60_000
_TURN_INTERVAL_SECONDS = 0.1


class _Record(Struct, frozen=True):
    """A row of schema_migrations."""

    version: int
    checksum: str
    after_at: str | None
    after_checksum: str | None

    def ran(self, migration: Migration) -> bool:
        return not migration.after or self.after_at is not None

    def checksum_of(self, migration: Migration) -> str | None:
        return self.after_checksum if migration.after else self.checksum


async def applied(connection: Any) -> int:
    """The version the database is at; 0 if it is empty."""
    return max(await _records(connection), default=0)


async def pending(connection: Any, *, after: bool = False) -> list[Migration]:
    """What `migrate` would run now. Includes after parts if requested, or if the database is empty: then there is no
    process that they could disturb."""
    records = await _records(connection)
    known = migrations()
    newest = max(records, default=0)
    if newest > known[-1].version:
        raise SchemaError(
            f"The database is at schema version {newest}, this Latchkey knows only {known[-1].version}. "
            "Install the Latchkey that made it, or a newer one; going back is not possible."
        )
    _require_unchanged(records)
    return [migration for migration in _waiting(records, known) if after or not migration.after or not records]


async def pending_after(connection: Any) -> list[Migration]:
    """The after parts that may run when no process of an older release is left."""
    records = await _records(connection)
    return [
        migration for migration in _waiting(records, migrations()) if migration.after and migration.version in records
    ]


async def require_unchanged(connection: Any) -> None:
    """Raise if a migration was changed after it was applied."""
    _require_unchanged(await _records(connection))


async def require_current(connection: Any) -> None:
    """Raise unless this code can work with the database's schema."""
    records, known = await _records(connection), migrations()
    waiting = [migration for migration in _waiting(records, known) if not migration.after]
    if waiting:
        raise SchemaError(
            f"The database's schema is {len(waiting)} migration(s) behind (next: {waiting[0].label}). "
            "Run `latchkey migrate`."
        )
    finished = [record.version for record in records.values() if record.version > known[-1].version and record.after_at]
    if finished:
        raise SchemaError(
            f"The upgrade to schema version {max(finished)} was finished with `latchkey migrate --after`; this "
            f"Latchkey knows only version {known[-1].version}. Install the Latchkey that made it, or a newer one; "
            "going back is not possible."
        )


async def migrate(
    connection: Any, *, after: bool = False, told: Callable[[Migration], None] = lambda _: None
) -> list[Migration]:
    """Bring the database up to date; `told` is called before each step. Idempotent, and safe to run concurrently.

    `after` also runs the after parts, which break processes of an older release."""
    await _take_turn(connection)
    try:
        await _prepare_records(connection)
        done = await pending(connection, after=after)
        for migration in done:
            told(migration)
            await _apply(connection, migration)
        return done
    finally:
        if not connection.is_closed():
            await connection.execute("select pg_advisory_unlock($1)", _LOCK)


async def _take_turn(connection: Any) -> None:
    """Polls for the lock: a session that blocks on it holds a snapshot, and building an index concurrently waits for
    every older snapshot to end, so the two would wait for each other."""
    loop = asyncio.get_running_loop()
    give_up = loop.time() + TURN_TIMEOUT_MS / 1000
    while not await connection.fetchval("select pg_try_advisory_lock($1)", _LOCK):
        if loop.time() > give_up:
            raise DatabaseBusyError("Another process has been migrating this database for minutes. Look at it first.")
        await asyncio.sleep(_TURN_INTERVAL_SECONDS)


async def _records(connection: Any) -> dict[int, _Record]:
    if await connection.fetchval("select to_regclass('schema_migrations')") is None:
        return {}
    rows = await connection.fetch("select to_jsonb(m)::text as record from schema_migrations m order by version")
    return {record.version: record for record in (json.decode(row["record"], type=_Record) for row in rows)}


def _waiting(records: dict[int, _Record], known: Iterable[Migration]) -> list[Migration]:
    return [
        migration
        for migration in known
        if migration.version not in records or not records[migration.version].ran(migration)
    ]


def _require_unchanged(records: dict[int, _Record]) -> None:
    ran = [
        migration
        for migration in migrations()
        if migration.version in records and records[migration.version].ran(migration)
    ]
    changed = [f"{one.label}.sql" for one in ran if records[one.version].checksum_of(one) != one.checksum]
    if changed:
        raise SchemaError(
            f"Changed since this database was migrated with it: {', '.join(changed)}. A migration that has run must "
            "not change. Restore the file as it was released, and put further changes into a new migration."
        )


async def _prepare_records(connection: Any) -> None:
    await connection.execute(
        "create table if not exists schema_migrations ("
        " version integer primary key, name text not null, applied_at timestamptz not null default now(),"
        " checksum text not null, after_at timestamptz, after_checksum text)"
    )


async def _apply(connection: Any, migration: Migration) -> None:
    for name, statement in migration.concurrent_indexes():
        await _build_index(connection, name, statement)
    try:
        async with connection.transaction():
            distributed = await is_distributed(connection)
            await wait_for_locks_at_most(connection, LOCK_TIMEOUT_MS, distributed=distributed)
            await connection.execute(f"set local statement_timeout = {STATEMENT_TIMEOUT_MS}")
            if not migration.concurrent_indexes():
                # A plain database takes all in one message, a distributed one does not.
                for command in commands(migration.text) if distributed else [migration.text]:
                    await connection.execute(command)
            await _record(connection, migration)
    except asyncpg.LockNotAvailableError as error:
        raise DatabaseBusyError(
            f"{migration.label} waited {LOCK_TIMEOUT_MS // 1000} s for a table that is in use and changed nothing. "
            "Run `latchkey migrate` again."
        ) from error


async def _build_index(connection: Any, name: str, statement: str) -> None:
    """Without a time limit: it blocks nobody. An interrupted build leaves an invalid index, which is dropped and
    rebuilt."""
    valid = await connection.fetchval("select indisvalid from pg_index where indexrelid = to_regclass($1)", name)
    if valid:
        return
    if valid is False:
        await connection.execute(f"drop index concurrently {name}")
    await connection.execute(statement)


async def _record(connection: Any, migration: Migration) -> None:
    number, checksum = migration.version, migration.checksum
    if migration.after:
        statement = "update schema_migrations set after_at = now(), after_checksum = $2 where version = $1"
        await connection.execute(statement, number, checksum)
    else:
        statement = "insert into schema_migrations (version, name, checksum) values ($1, $2, $3)"
        await connection.execute(statement, number, migration.name, checksum)
