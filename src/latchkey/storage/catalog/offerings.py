"""Offerings as an operator edits them, and the one that a customer sees instead of the current one. `shelf.py` parses
them for apps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import json

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection, Record
from latchkey.storage.sql import query

_CREATE = query("create_offering")
_PAGE = query("list_offerings")
_UPDATE = query("update_offering")
_SET_CURRENT = query("set_current_offering")
_DELETE = query("delete_offering")
_USES = query("uses_of_offering")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offering:
    id: str
    lookup_key: str
    display_name: str
    metadata: Mapping[str, Any] | None
    is_current: bool
    created_at: Ms


@dataclass(frozen=True, slots=True)
class Uses:
    """What names an offering: ids of placements, names of experiments."""

    placements: list[str]
    experiments: list[str]


async def create(
    connection: Connection,
    project_id: str,
    offering_id: str,
    lookup_key: str,
    display_name: str,
    metadata: Mapping[str, Any] | None,
    now: Ms,
) -> Offering | None:
    """None: the lookup key is taken."""
    stored = _encoded(metadata)
    return _found(await connection.fetchrow(_CREATE, project_id, offering_id, lookup_key, display_name, stored, now))


async def load(connection: Connection, project_id: str, offering_id: str) -> Offering | None:
    return _found(await connection.fetchrow(_PAGE, project_id, None, 1, offering_id))


async def page(connection: Connection, project_id: str, after: str | None, limit: int | None) -> list[Offering]:
    """Oldest first; `after` is the id of the last offering of the page before."""
    return [_offering(row) for row in await connection.fetch(_PAGE, project_id, after, limit, None)]


async def update(
    connection: Connection, project_id: str, offering_id: str, display_name: str, metadata: Mapping[str, Any] | None
) -> None:
    await connection.execute(_UPDATE, project_id, offering_id, display_name, _encoded(metadata))


async def set_current(connection: Connection, project_id: str, offering_id: str | None) -> None:
    """None: no offering is the current one."""
    await connection.execute(_SET_CURRENT, project_id, None)
    if offering_id is not None:
        await connection.execute(_SET_CURRENT, project_id, offering_id)


async def delete(connection: Connection, project_id: str, offering_id: str) -> None:
    await connection.execute(_DELETE, project_id, offering_id)


async def uses(connection: Connection, project_id: str, offering_id: str) -> Uses:
    row = await connection.fetchrow(_USES, project_id, offering_id)
    assert row is not None
    return Uses(row["placements"], row["experiments"])


def _encoded(metadata: Mapping[str, Any] | None) -> bytes | None:
    return None if metadata is None else json.encode(metadata)


def _found(row: Record | None) -> Offering | None:
    return None if row is None else _offering(row)


def _offering(row: Record) -> Offering:
    return Offering(
        id=row["id"],
        lookup_key=row["lookup_key"],
        display_name=row["display_name"],
        metadata=None if row["metadata"] is None else json.decode(row["metadata"]),
        is_current=row["is_current"],
        created_at=row["created_at"],
    )


_SET = query("override_offering")
_CLEAR = query("clear_offering_override")


async def override(connection: Connection, project_id: str, app_user_id: str, offering_id: str, now: Ms) -> bool:
    """False: there is no such customer."""
    return await connection.fetchval(_SET, project_id, app_user_id, offering_id, now) is not None


async def clear_override(connection: Connection, project_id: str, app_user_id: str) -> None:
    await connection.execute(_CLEAR, project_id, app_user_id)
