"""The projects with the most events, found without counting rows."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_FEEDS = query("look_at_feeds")
_SINCE = query("count_events_since")
_CUSTOMERS = query("count_newcomers_of_project")


@dataclass(frozen=True, slots=True)
class Feed:
    project_id: str
    name: str
    # Since the project exists.
    events: int


async def largest_feeds(connection: Connection, limit: int) -> list[Feed]:
    rows = await connection.fetch(_FEEDS, limit)
    return [Feed(row["project_id"], row["name"] or "", row["events"]) for row in rows]


async def events_since(connection: Connection, project_id: str, since: Ms) -> int:
    return int(await connection.fetchval(_SINCE, project_id, since) or 0)


async def customers(connection: Connection, project_id: str) -> int:
    return int(await connection.fetchval(_CUSTOMERS, project_id))
