"""Which trace an event belongs to. Used only while traces are on."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection, Database
from latchkey.storage.outages import translates_errors
from latchkey.storage.sql import affected, query

_KEEP = query("keep_event_traces")
_LOAD = query("load_event_traces")
_PRUNE = query("prune_event_traces")


async def keep(connection: Connection, project_id: str, traces: Mapping[str, str], at: Ms) -> None:
    """`traces`: a `traceparent` by the id of the event."""
    await connection.execute(_KEEP, project_id, list(traces), list(traces.values()), at)


@translates_errors
async def load(database: Database, events: Collection[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """By project and id of the event; those without a trace are left out."""
    async with database.at_hand() as connection:
        rows = await connection.fetch(_LOAD, [project for project, _ in events], [id for _, id in events])
    return {(row[0], row[1]): row[2] for row in rows}


@translates_errors
async def prune(database: Database, before: Ms, *, at_once: int = 5_000) -> None:
    async with database.acquire() as connection:
        while affected(await connection.execute(_PRUNE, before, at_once)):
            pass
