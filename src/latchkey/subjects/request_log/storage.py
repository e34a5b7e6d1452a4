"""Requests with API keys, when each key was last used, and requests with an Idempotency-Key with their replies."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from latchkey.database.pool import Connection, Database
from latchkey.database.rows import executes, fetch_all, fetches_column, fetches_one, finds_value
from latchkey.database.sql import affected, query
from latchkey.domain.instants import Ms

# Rows that a page of the log looks at, for those that fit its filters.
EXAMINED = 20_000
_LAST_ID = 2**63 - 1


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


class LoggedRequest(Logged, frozen=True):
    """A row as the dashboard shows it."""

    id: int = 0


async def write(connection: Connection, rows: Sequence[Logged]) -> None:
    columns = [[getattr(row, name) for row in rows] for name in Logged.__struct_fields__]
    await connection.execute(query("log_requests"), *columns)


async def note_uses(connection: Connection, uses: Mapping[str, Ms]) -> None:
    """By key: when it was used."""
    await connection.execute(query("note_key_uses"), list(uses), list(uses.values()))


async def page(
    database: Database,
    project_id: str,
    *,
    key_id: str | None = None,
    status_class: int | None = None,
    route: str | None = None,
    before: int | None = None,
    limit: int = 50,
) -> list[LoggedRequest]:
    """Newest first, of at most `EXAMINED` rows. Rows that say how many were left out are shown only where nothing is
    filtered."""
    chosen = _LAST_ID if before is None else before, EXAMINED, status_class, route, limit, key_id
    return await fetch_all(database, LoggedRequest, query("list_requests"), project_id, *chosen)


# Of so many of the newest rows.
routes = fetches_column(str, query("logged_routes"))


async def prune_request_log(
    database: Database, before: Ms, newest: int, *, at_once: int = 5_000, keys_at_once: int = 1_000
) -> int:
    """Deletes what is from before a moment, and of each key all but the newest. Returns how many rows."""
    gone = 0
    async with database.acquire() as connection:
        while deleted := affected(await connection.execute(query("prune_request_log"), before, at_once)):
            gone += deleted
        after = ""
        while keys := [row["key_id"] for row in await connection.fetch(query("logged_keys"), after, keys_at_once)]:
            for key_id in keys:
                while deleted := affected(
                    await connection.execute(query("prune_requests_of_key"), key_id, newest, at_once)
                ):
                    gone += deleted
            after = keys[-1]
        await connection.execute(query("prune_key_uses"))
        await connection.execute(query("prune_rate_windows"))
    return gone


class KnownRequest(Struct, frozen=True):
    fingerprint: bytes
    started_at: Ms
    # None: it is under way, or its process has died.
    status: int | None
    # Encrypted. None beside a status: it failed, and may be carried out again.
    reply: bytes | None


# When the request was first sent, if it is to be carried out now. None: `load` says why not.
begin = finds_value(int, query("begin_idempotent_request"))
load = fetches_one(KnownRequest, query("load_idempotent_request"))
finish = executes(query("finish_idempotent_request"))


async def prune_idempotent_requests(database: Database, before: Ms, *, at_once: int = 1_000) -> None:
    async with database.acquire() as connection:
        while affected(await connection.execute(query("prune_idempotent_requests"), before, at_once)) == at_once:
            pass
