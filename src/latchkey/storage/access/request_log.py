"""Requests with API keys, and when each key was last used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection, Database
from latchkey.storage.sql import affected, query

_LOG = query("log_requests")
_NOTE = query("note_key_uses")
_USES = query("load_key_uses")
_LIST = query("list_requests")
_ROUTES = query("logged_routes")
_PRUNE = query("prune_request_log")
_KEYS = query("logged_keys")
_PRUNE_KEY = query("prune_requests_of_key")
_PRUNE_USES = query("prune_key_uses")

# Rows that a page looks at, for those that fit its filters.
EXAMINED = 20_000


class Logged(Struct, frozen=True, gc=False):
    """One request; or, with `left_out`, how many more were not kept."""

    project_id: str
    key_id: str
    at: Ms
    method: str = ""
    route: str = ""
    status: int = 0
    took_us: int = 0
    bytes: int = 0
    request_id: str = ""
    address: str = ""
    agent: str = ""
    left_out: int = 0


class Entry(Struct, frozen=True):
    """A row as the dashboard shows it."""

    id: int
    key_id: str
    at: Ms
    method: str
    route: str
    status: int
    took_us: int
    bytes: int
    request_id: str
    address: str
    agent: str
    left_out: int


async def write(connection: Connection, rows: Sequence[Logged]) -> None:
    columns = [[getattr(row, name) for row in rows] for name in Logged.__struct_fields__]
    await connection.execute(_LOG, *columns)


async def note_uses(connection: Connection, uses: Mapping[str, tuple[str, Ms]]) -> None:
    """By key: its project, and when it was used."""
    await connection.execute(
        _NOTE, list(uses), [project for project, _ in uses.values()], [at for _, at in uses.values()]
    )


async def uses_of(connection: Connection, key_ids: Sequence[str]) -> dict[str, Ms]:
    if not key_ids:
        return {}
    return {row["key_id"]: row["used_at"] for row in await connection.fetch(_USES, list(key_ids))}


async def page(
    connection: Connection,
    project_id: str,
    *,
    key_id: str | None,
    status_class: int | None,
    route: str | None,
    before: int,
    limit: int,
) -> list[Entry]:
    """Newest first, of at most `EXAMINED` rows."""
    rows = await connection.fetch(_LIST, project_id, before, EXAMINED, status_class, route, limit, key_id)
    # Without its project.
    return [Entry(*row[1:]) for row in rows]


async def routes(connection: Connection, project_id: str) -> list[str]:
    return [row["route"] for row in await connection.fetch(_ROUTES, project_id, EXAMINED)]


async def prune(database: Database, before: Ms, newest: int, *, at_once: int = 5_000, keys_at_once: int = 1_000) -> int:
    """Deletes what is from before a moment, and of each key all but the newest. Returns how many rows."""
    gone = 0
    async with database.acquire() as connection:
        while deleted := affected(await connection.execute(_PRUNE, before, at_once)):
            gone += deleted
        after = ""
        while keys := [row["key_id"] for row in await connection.fetch(_KEYS, after, keys_at_once)]:
            for key_id in keys:
                while deleted := affected(await connection.execute(_PRUNE_KEY, key_id, newest, at_once)):
                    gone += deleted
            after = keys[-1]
        await connection.execute(_PRUNE_USES)
    return gone
