"""Which server the database is on, and whether it was restored since a process last looked."""

from __future__ import annotations

import asyncpg

from latchkey.domain.instants import Ms
from latchkey.domain.restore import Origin, Server, origin, reason_of
from latchkey.storage.database import Connection, Database, Record
from latchkey.storage.errors import RestoredError
from latchkey.storage.outages import translates_errors
from latchkey.storage.sql import query

_FOUND = query("server_found")
_HISTORY = query("timeline_history")
_NOTE = query("note_server")


async def settle(connection: Connection, now: Ms) -> Origin:
    """Compare the server with the one that was noted, and note it where that is in order: at the first look, and after
    a standby took over."""
    seen = await _look(connection)
    if seen is None:
        return Origin.SAME
    known, found, reason = seen
    what = origin(known, found, reason)
    if known is None or what is Origin.PROMOTED:
        await note(connection, found, now)
    return what


async def require_settled(connection: Connection, now: Ms) -> None:
    """Refuse to work on a database that was restored, until `latchkey admin after-restore` has run."""
    if await settle(connection, now) is Origin.RESTORED:
        raise RestoredError(
            "This database was restored from a backup. Receivers may have seen events that it does not know. "
            "Run `latchkey admin after-restore` before anything else works on it."
        )


@translates_errors
async def refuse_restored(database: Database, now: Ms) -> None:
    """As `require_settled`, for a process that outlives outages."""
    async with database.acquire() as connection:
        await require_settled(connection, now)


async def look(connection: Connection) -> tuple[Origin, Server | None]:
    """The same without noting anything; None: a standby, which decides nothing."""
    seen = await _look(connection)
    if seen is None:
        return Origin.SAME, None
    known, found, reason = seen
    return origin(known, found, reason), found


async def note(connection: Connection, server: Server, now: Ms) -> None:
    await connection.execute(_NOTE, server.system_identifier, server.database_oid, server.timeline, now)


async def _look(connection: Connection) -> tuple[Server | None, Server, str | None] | None:
    row = await connection.fetchrow(_FOUND)
    if row is None or row["timeline"] is None:
        return None
    found = Server(row["system_identifier"], row["database_oid"], row["timeline"])
    known = _known(row)
    reason = None
    if known is not None and known.timeline != found.timeline:
        reason = await _reason(connection, found.timeline)
    return known, found, reason


def _known(row: Record) -> Server | None:
    if row["known_identifier"] is None:
        return None
    return Server(row["known_identifier"], row["known_oid"], row["known_timeline"])


async def _reason(connection: Connection, timeline: int) -> str | None:
    try:
        history: str | None = await connection.fetchval(_HISTORY, timeline)
    except asyncpg.PostgresError:
        # Only a superuser may read files of the server; some providers have none to read.
        return None
    return reason_of(history) if history is not None else None
