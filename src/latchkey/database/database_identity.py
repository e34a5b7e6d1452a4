"""Which server the database is on. After a restore or a lossy failover, new events skip ahead of what was lost."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

import asyncpg
import structlog
from msgspec import Struct

from latchkey.database.errors import RestoredError
from latchkey.database.sql import query
from latchkey.domain.instants import Ms
from latchkey.domain.restore import (
    CUSTOMERS,
    POSITIONS,
    SEQUENCES,
    DatabaseIdentity,
    Origin,
    may_lack_commits,
    origin,
    reason_of,
    stretch_of,
)

if TYPE_CHECKING:
    from latchkey.database.pool import Connection, Executor

log = structlog.get_logger()


class Restore(Struct, frozen=True):
    moved_at: Ms | None
    finished_at: Ms | None


async def begin(connection: Connection, server: DatabaseIdentity) -> Restore:
    row = await connection.fetchrow(query("begin_restore"), *server)
    assert row is not None, "an insert or update returns its row"
    return Restore(**row)


async def lossy_failovers(connection: Connection) -> int:
    """How many may have lost commits, and `after-restore` has not run since."""
    found: int = await connection.fetchval(query("lossy_failovers"))
    return found


async def feed_heads(connection: Executor) -> dict[str, int]:
    """The newest position of each project. Not in the transaction of `skip_ahead`: Citus changes no reference table
    after it has read from several nodes."""
    return {row["project_id"]: row["position"] for row in await connection.fetch(query("feed_heads"))}


async def skip_ahead(connection: Connection, server: DatabaseIdentity, heads: Mapping[str, int], now: Ms) -> None:
    """In a transaction: new events and customers get numbers above all that can have been given."""
    to = stretch_of(now)
    await connection.execute(
        query("raise_sequence_floors"), list(heads), list(heads.values()), SEQUENCES, POSITIONS, to
    )
    await connection.execute(query("move_feeds_on"), POSITIONS, to)
    await connection.execute(query("move_customer_keys_of_projects_on"), CUSTOMERS, to)
    await connection.execute(query("move_customer_keys_on"), CUSTOMERS, to)
    await connection.execute(query("note_moved"), *server, now)


class Sighting(Struct, frozen=True):
    found: DatabaseIdentity
    # The server that was noted; None if none was.
    known: DatabaseIdentity | None
    origin: Origin
    # Whether commits wait for a standby now, and whether they did on the server that was noted.
    waits: bool
    waited: bool
    # Whether a server that was noted may come from a restore: its history could not be read.
    is_unclear: bool
    # When the server before the one that was found was last noted; 0 if another process has noted that one already, and
    # commits did not wait before.
    noted_at: Ms
    now: Ms


async def settle(connection: Connection, *, unconfirmed_at: Ms = 0, begins: bool = True) -> Origin:
    """Compare the server with the one that was noted, and note it where that is in order: at the first look, unless
    this `begins` nothing, and after a standby took over. Where that may lack commits, numbers skip ahead: receivers may
    have seen the lost events. `unconfirmed_at`: when this process last saw the server before, and commits did not wait
    for a standby."""
    seen = await _look(connection)
    if seen is None:
        return Origin.SAME
    # What another process noted after this one looked is newer.
    waited = not unconfirmed_at or unconfirmed_at <= seen.noted_at
    lossy = seen.known is not None and may_lack_commits(seen.origin, seen.waited, waited)
    if seen.known is None:
        differs = begins
    else:
        took_over = seen.origin in (Origin.PROMOTED, Origin.UNCLEAR)
        differs = took_over or (seen.origin is Origin.SAME and seen.waits != seen.waited)
    if not (lossy or differs):
        return seen.origin
    heads = await feed_heads(connection) if lossy else {}
    async with connection.transaction():
        await connection.execute(query("lock_server"))
        skips = lossy and (await begin(connection, seen.found)).moved_at is None
        if skips:
            await skip_ahead(connection, seen.found, heads, seen.now)
        await note(connection, seen.found, is_unclear=True if seen.origin is Origin.UNCLEAR else None)
        # A standby that is not there must not delay reads. Commits that wait for one wait for this commit too.
        await connection.execute("set local synchronous_commit = local")
    if skips:
        log.error(
            "a failover may have lost commits",
            timeline=seen.found.timeline,
            done="new events skip to sequences that were never used",
            remedy="`latchkey doctor` says what to do",
        )
    return seen.origin


async def follow(connection: Connection, *, unconfirmed_at: Ms) -> None:
    """For each new server, before anything is written to it."""
    # Where the schema is still to be migrated, whoever needs it says so.
    with contextlib.suppress(asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError):
        await settle(connection, unconfirmed_at=unconfirmed_at, begins=False)


async def require_settled(connection: Connection) -> None:
    """Refuse to work on a database that was restored, until `latchkey admin after-restore` has run."""
    if await settle(connection) is Origin.RESTORED:
        raise RestoredError(
            "This database was restored from a backup. Receivers may have seen events that it does not know. "
            "Run `latchkey admin after-restore` before anything else works on it."
        )


async def look(connection: Connection) -> tuple[Origin, DatabaseIdentity | None]:
    """The same without noting anything, and unclear until `after-restore` has run; None: a standby, which decides
    nothing."""
    seen = await _look(connection)
    if seen is None:
        return Origin.SAME, None
    return (Origin.UNCLEAR if seen.is_unclear and seen.origin is not Origin.RESTORED else seen.origin), seen.found


async def note(connection: Executor, server: DatabaseIdentity, *, is_unclear: bool | None = None) -> None:
    """`is_unclear` None: as before."""
    await connection.execute(query("note_server"), *server, is_unclear)


async def _look(connection: Connection) -> Sighting | None:
    row = await connection.fetchrow(query("server_found"))
    if row is None or row["timeline"] is None:
        return None
    found = DatabaseIdentity(row["system_identifier"], row["database_oid"], row["timeline"])
    known = None
    if row["known_identifier"] is not None:
        known = DatabaseIdentity(row["known_identifier"], row["known_oid"], row["known_timeline"])
    reason = None
    if known is not None and known.timeline != found.timeline:
        reason = await _reason(connection, found.timeline, known.timeline)
    what = origin(known, found, reason)
    noted_at = row["before_waited_at" if what is Origin.SAME else "noted_at"] or 0
    waited = row["waited"] is not False
    return Sighting(found, known, what, row["waits"], waited, bool(row["is_unclear"]), noted_at, row["now"])


async def _reason(connection: Connection, timeline: int, since: int) -> str | None:
    try:
        history: str | None = await connection.fetchval(query("timeline_history"), timeline)
    except asyncpg.PostgresError:
        # Only a superuser may read files of the server; some providers have none to read.
        return None
    return reason_of(history, since) if history is not None else None
