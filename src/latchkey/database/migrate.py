"""The migrations of this code, read from `migrations/`.

    0014_name.sql         runs before processes of this release start; processes of the release before keep working
    0014_name.after.sql   optional; runs when no process of the release before is left

A file that builds an index on an existing table says `create index concurrently`, and holds only such statements.
docs/architecture/database.md says what belongs in which file. A file never changes once it is released.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

import asyncpg
from msgspec import Struct

from latchkey.database.distribution.nodes import is_distributed
from latchkey.database.errors import DatabaseBusyError, SchemaError
from latchkey.database.pool import wait_for_locks_at_most

_FILE = re.compile(r"^(?P<version>\d{4})_(?P<name>[a-z0-9_]+)(?P<after>\.after)?\.sql$")
_COMMENT = re.compile(r"--.*$", re.MULTILINE)
_INDEX = re.compile(r"create\s+(?:unique\s+)?index\s+concurrently\s+(?P<name>[a-z0-9_]+)\s+on\s", re.IGNORECASE)


class Migration(Struct, frozen=True):
    version: int
    name: str
    text: str
    after: bool = False

    @property
    def label(self) -> str:
        return f"{self.version:04d}_{self.name}{'.after' if self.after else ''}"

    @property
    def key(self) -> tuple[int, bool]:
        return self.version, self.after

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
    ordered = sorted(found, key=lambda one: one.key)
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


# The checksum of each file that has run, by its version and whether it is an after part.
_Ran = dict[tuple[int, bool], str]


async def applied(connection: Any) -> int:
    """The version the database is at; 0 if it is empty."""
    return _newest(await _ran(connection))


async def pending(connection: Any, *, after: bool = False) -> list[Migration]:
    """What `migrate` would run now. Includes after parts if requested, or if the database is empty: then there is no
    process that they could disturb. Nothing if a newer version has begun an upgrade: this one still works with it."""
    ran, known = await _ran(connection), migrations()
    _require_unfinished(ran, known)
    if after and (newest := _newest(ran)) > known[-1].version:
        raise SchemaError(
            f"The database is at schema version {newest}, this Latchkey knows only {known[-1].version}. "
            "Finish the upgrade with the Latchkey that began it."
        )
    _require_unchanged(ran)
    return [one for one in known if one.key not in ran and (after or not one.after or not ran)]


async def pending_after(connection: Any) -> list[Migration]:
    """The after parts that may run when no process of an older release is left."""
    ran = await _ran(connection)
    return [one for one in migrations() if one.after and one.key not in ran and (one.version, False) in ran]


async def require_unchanged(connection: Any) -> None:
    """Raise if a migration was changed after it was applied."""
    _require_unchanged(await _ran(connection))


async def require_current(connection: Any) -> None:
    """Raise unless this code can work with the database's schema."""
    ran, known = await _ran(connection), migrations()
    waiting = [migration for migration in known if not migration.after and migration.key not in ran]
    if waiting:
        raise SchemaError(
            f"The database's schema is {len(waiting)} migration(s) behind (next: {waiting[0].label}). "
            "Run `latchkey migrate`."
        )
    _require_unfinished(ran, known)


def _require_unfinished(ran: _Ran, known: Sequence[Migration]) -> None:
    finished = [version for version, after in ran if after and version > known[-1].version]
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
        await connection.execute(
            "create table if not exists schema_migrations ("
            " version integer primary key, name text not null, applied_at timestamptz not null default now(),"
            " checksum text not null, after_at timestamptz, after_checksum text)"
        )
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


async def _ran(connection: Any) -> _Ran:
    if await connection.fetchval("select to_regclass('schema_migrations')") is None:
        return {}
    rows = await connection.fetch("select version, checksum, after_checksum from schema_migrations order by version")
    after = {(row["version"], True): row["after_checksum"] for row in rows if row["after_checksum"] is not None}
    return {(row["version"], False): row["checksum"] for row in rows} | after


def _newest(ran: _Ran) -> int:
    return max((version for version, _ in ran), default=0)


def _require_unchanged(ran: _Ran) -> None:
    changed = [f"{one.label}.sql" for one in migrations() if ran.get(one.key, one.checksum) != one.checksum]
    if changed:
        raise SchemaError(
            f"Changed since this database was migrated with it: {', '.join(changed)}. A migration that has run must "
            "not change. Restore the file as it was released, and put further changes into a new migration."
        )


async def _apply(connection: Any, migration: Migration) -> None:
    for name, statement in migration.concurrent_indexes():
        # Without a time limit: it blocks nobody. An interrupted build leaves an invalid index, which is rebuilt.
        valid = await connection.fetchval("select indisvalid from pg_index where indexrelid = to_regclass($1)", name)
        if valid is False:
            await connection.execute(f"drop index concurrently {name}")
        if not valid:
            await connection.execute(statement)
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


async def _record(connection: Any, migration: Migration) -> None:
    text = "insert into schema_migrations (version, name, checksum) values ($1, $2, $3)"
    if migration.after:
        text = "update schema_migrations set after_at = now(), after_checksum = $3 where version = $1 and name = $2"
    await connection.execute(text, migration.version, migration.name, migration.checksum)
