"""How an app is connected to its store. Secrets are stored as the use case encrypted them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec import Struct, json

from latchkey.database.pool import Connection, Executor, Record
from latchkey.database.rows import executes, fetch_all, returns_row
from latchkey.database.sql import query
from latchkey.domain.instants import Ms

CheckResult = Literal["ok", "refused", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConnection:
    project_id: str
    app_id: str
    store: str
    version: int
    credentials: bytes | None = field(repr=False)
    # What may be shown of the credentials.
    shown: dict[str, Any] | None
    saved_at: Ms | None
    check_result: CheckResult
    check_message: str
    checked_at: Ms | None
    url_token: bytes = field(repr=False)
    first_notified_at: Ms | None
    last_notified_at: Ms | None
    # UTC days in a row with notifications, up to the last one.
    notified_days: int
    history_read_to: Ms | None


# Gives the app a connection with this notification URL, if it has none: project, app, the token and its hash.
ensure = executes(query("ensure_store_connection"))
# Of an app: the encrypted credentials and what may be shown of them, now, and what the store said of them. With None
# the app is no longer connected.
save = executes(query("save_store_credentials"))
# What a later call said of the credentials of this version, now, and whether somebody wants to know: then the time is
# kept even if the result is the same.
note_check = executes(query("note_store_check"))
# Of an app: when its last notification came, and until when the store's history was read.
note_notified = executes(query("note_notified"))
note_history_read = executes(query("note_history_read"))
# Counts one more temporary grant of an app in this hour. False: the cap is reached.
take_temporary_grant = returns_row(query("take_temporary_grant"))
# Those of hours before this one.
prune_temporary_grants = executes(query("prune_temporary_grants"))


async def load(connection: Executor, project_id: str, app_id: str) -> StoreConnection | None:
    return (await load_some(connection, project_id, [app_id])).get(app_id)


async def load_some(connection: Executor, project_id: str, app_ids: Sequence[str]) -> dict[str, StoreConnection]:
    """By app, those that have a connection."""
    rows = await connection.fetch(query("load_store_connections"), project_id, app_ids)
    return {row["app_id"]: _connection(row) for row in rows}


async def by_token(connection: Executor, token_hash: bytes, now: Ms) -> StoreConnection | None:
    row = await connection.fetchrow(query("store_connection_by_token"), token_hash, now)
    return None if row is None else _connection(row)


async def connected(connection: Executor) -> list[StoreConnection]:
    """Every app with credentials."""
    return [_connection(row) for row in await connection.fetch(query("connected_apps"))]


async def rotate(connection: Connection, project_id: str, app_id: str, *change: bytes | Ms) -> None:
    """A new token and its hash, until when the one before works, and now. In a transaction: two rotations at the same
    time must not lose a URL."""
    await connection.execute(query("lock_store_connection"), project_id, app_id)
    await connection.execute(query("rotate_notification_token"), project_id, app_id, *change)


class Troubles(Struct, frozen=True):
    # Apps without credentials, and with refused ones.
    missing: int
    refused: int
    # Failed entries of the journal, at most 1,000.
    failed: int


async def count_troubles(connection: Connection, stores: Sequence[str]) -> Troubles:
    """Of all projects, for the apps of these stores."""
    [found] = await fetch_all(connection, Troubles, query("count_store_troubles"), list(stores), 1000)
    return found


def _connection(row: Record) -> StoreConnection:
    shown = None if row["shown"] is None else json.decode(row["shown"])
    return StoreConnection(**{name: row[name] for name in StoreConnection.__slots__ if name != "shown"}, shown=shown)
