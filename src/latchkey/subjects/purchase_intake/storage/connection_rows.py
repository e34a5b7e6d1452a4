"""How an app is connected to its store. Secrets are stored as the use case encrypted them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec import json

from latchkey.database.pool import Connection, Executor, Record
from latchkey.database.sql import query
from latchkey.domain.instants import Ms

_SAVE = query("save_store_credentials")

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
    history_read_to: Ms | None


async def ensure(connection: Connection, project_id: str, app_id: str, token: bytes, token_hash: bytes) -> None:
    """Give the app a connection with this notification URL, if it has none."""
    await connection.execute(query("ensure_store_connection"), project_id, app_id, token, token_hash)


async def load(connection: Connection, project_id: str, app_id: str) -> StoreConnection | None:
    return (await load_some(connection, project_id, [app_id])).get(app_id)


async def load_some(connection: Executor, project_id: str, app_ids: Sequence[str]) -> dict[str, StoreConnection]:
    """By app, those that have a connection."""
    rows = await connection.fetch(query("load_store_connections"), project_id, app_ids)
    return {row["app_id"]: _connection(row) for row in rows}


async def by_token(connection: Connection, token_hash: bytes, now: Ms) -> StoreConnection | None:
    return _found(await connection.fetchrow(query("store_connection_by_token"), token_hash, now))


async def connected(connection: Executor) -> list[StoreConnection]:
    """Every app with credentials."""
    return [_connection(row) for row in await connection.fetch(query("connected_apps"))]


async def save(
    connection: Connection,
    project_id: str,
    app_id: str,
    *,
    credentials: bytes,
    shown: dict[str, str],
    check: tuple[CheckResult, str],
    now: Ms,
) -> StoreConnection | None:
    row = await connection.fetchrow(_SAVE, project_id, app_id, credentials, json.encode(shown), now, *check)
    return _found(row)


async def delete(connection: Connection, project_id: str, app_id: str) -> StoreConnection | None:
    return _found(await connection.fetchrow(_SAVE, project_id, app_id, None, None, None, "unknown", ""))


async def note_check(
    connection: Connection,
    project_id: str,
    app_id: str,
    version: int,
    check: tuple[CheckResult, str],
    now: Ms,
    *,
    asked: bool = False,
) -> None:
    """`asked`: somebody wants to know, so the time is kept even if the result is the same."""
    await connection.execute(query("note_store_check"), project_id, app_id, version, *check, now, asked)


async def rotate(
    connection: Connection, project_id: str, app_id: str, token: bytes, token_hash: bytes, previous_until: Ms, now: Ms
) -> StoreConnection | None:
    """In a transaction: two rotations at the same time must not lose a URL."""
    await connection.execute(query("lock_store_connection"), project_id, app_id)
    return _found(
        await connection.fetchrow(
            query("rotate_notification_token"), project_id, app_id, token, token_hash, previous_until, now
        )
    )


async def note_notified(connection: Connection, project_id: str, app_id: str, at: Ms) -> None:
    await connection.execute(query("note_notified"), project_id, app_id, at)


async def note_history_read(connection: Connection, project_id: str, app_id: str, to: Ms) -> None:
    await connection.execute(query("note_history_read"), project_id, app_id, to)


@dataclass(frozen=True, slots=True)
class Troubles:
    # Apps without credentials, and with refused ones.
    missing: int
    refused: int
    # Failed entries of the journal, at most 1,000.
    failed: int


async def count_troubles(connection: Connection, stores: Sequence[str]) -> Troubles:
    """Of all projects, for the apps of these stores."""
    row = await connection.fetchrow(query("count_store_troubles"), list(stores), 1000)
    assert row is not None
    return Troubles(row["missing"], row["refused"], row["failed"])


async def take_temporary_grant(connection: Connection, project_id: str, app_id: str, hour: int, cap: int) -> bool:
    """Count one more temporary grant of the app in this hour. False: the cap is reached."""
    return (
        cap > 0 and await connection.fetchval(query("take_temporary_grant"), project_id, app_id, hour, cap) is not None
    )


def _found(row: Record | None) -> StoreConnection | None:
    return None if row is None else _connection(row)


def _connection(row: Record) -> StoreConnection:
    shown = None if row["shown"] is None else json.decode(row["shown"])
    return StoreConnection(**{name: row[name] for name in StoreConnection.__slots__ if name != "shown"}, shown=shown)
