"""Placements: places in an app that show an offering of their own."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection, Record
from latchkey.storage.sql import query

_CREATE = query("create_placement")
_PAGE = query("list_placements")
_UPDATE = query("update_placement")
_SET_FALLBACK = query("set_fallback_placement")
_DELETE = query("delete_placement")


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    id: str
    display_name: str
    # None: nothing is offered there.
    offering_id: str | None
    is_fallback: bool
    created_at: Ms


async def create(
    connection: Connection, project_id: str, placement_id: str, display_name: str, offering_id: str | None, now: Ms
) -> Placement | None:
    """None: the id is taken."""
    return _found(await connection.fetchrow(_CREATE, project_id, placement_id, display_name, offering_id, now))


async def load(connection: Connection, project_id: str, placement_id: str) -> Placement | None:
    return _found(await connection.fetchrow(_PAGE, project_id, None, 1, placement_id))


async def page(connection: Connection, project_id: str, after: str | None, limit: int | None) -> list[Placement]:
    """By id; `after` is the last id of the page before."""
    return [_placement(row) for row in await connection.fetch(_PAGE, project_id, after, limit, None)]


async def update(
    connection: Connection, project_id: str, placement_id: str, display_name: str, offering_id: str | None
) -> None:
    await connection.execute(_UPDATE, project_id, placement_id, display_name, offering_id)


async def set_fallback(connection: Connection, project_id: str, placement_id: str | None) -> None:
    """None: no placement is the fallback."""
    await connection.execute(_SET_FALLBACK, project_id, None)
    if placement_id is not None:
        await connection.execute(_SET_FALLBACK, project_id, placement_id)


async def delete(connection: Connection, project_id: str, placement_id: str) -> bool:
    """False: there is no such placement."""
    return await connection.execute(_DELETE, project_id, placement_id) != "DELETE 0"


def _found(row: Record | None) -> Placement | None:
    return None if row is None else _placement(row)


def _placement(row: Record) -> Placement:
    return Placement(
        id=row["id"],
        display_name=row["display_name"],
        offering_id=row["offering_id"],
        is_fallback=row["is_fallback"],
        created_at=row["created_at"],
    )
