"""Placements: which offering an app shows at which of its places. An app asks by the placement's id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from latchkey.domain.instants import Ms
from latchkey.domain.naming import checked_id, checked_name
from latchkey.domain.refusal import Conflict, NotFound, Refusal
from latchkey.storage.catalog import placements
from latchkey.storage.catalog.placements import Placement as Placement
from latchkey.storage.database import Connection, Database
from latchkey.usecases.catalog import offerings
from latchkey.usecases.catalog.version import changing_catalog

MOST = 500


async def create_placement(
    database: Database,
    project_id: str,
    placement_id: str,
    display_name: str | None,
    offering_id: str | None,
    *,
    is_fallback: bool = False,
    now: Ms,
) -> Placement:
    """Without an offering nothing is offered there."""
    checked_id(placement_id)
    name = checked_name(display_name if display_name is not None else placement_id, "display_name")
    async with changing_catalog(database, project_id) as connection:
        if len(await placements.page(connection, project_id, None, MOST)) == MOST:
            raise Refusal(f"A project has at most {MOST} placements. Delete one first.")
        if offering_id is not None:
            await offerings.found(connection, project_id, offering_id)
        made = await placements.create(connection, project_id, placement_id, name, offering_id, now)
        if made is None:
            raise Conflict(f"There is already a placement {placement_id!r} in this project.", param="id")
        if is_fallback:
            await placements.set_fallback(connection, project_id, placement_id)
        return await _load(connection, project_id, placement_id)


async def load_placement(database: Database, project_id: str, placement_id: str) -> Placement:
    async with database.acquire() as connection:
        return await _load(connection, project_id, placement_id)


async def list_placements(
    database: Database, project_id: str, *, after: str | None = None, limit: int = MOST
) -> list[Placement]:
    """By id."""
    async with database.acquire() as connection:
        return await placements.page(connection, project_id, after, limit)


async def update_placement(
    database: Database, project_id: str, placement_id: str, changes: Mapping[str, Any]
) -> Placement:
    """Changes `display_name`, `offering_id` and `is_fallback` if they are given. There is at most one fallback."""
    async with changing_catalog(database, project_id) as connection:
        before = await _load(connection, project_id, placement_id)
        name = checked_name(changes.get("display_name", before.display_name), "display_name")
        offering_id = changes.get("offering_id", before.offering_id)
        if offering_id is not None:
            await offerings.found(connection, project_id, offering_id)
        await placements.update(connection, project_id, placement_id, name, offering_id)
        fallback = changes.get("is_fallback", before.is_fallback)
        if fallback != before.is_fallback:
            await placements.set_fallback(connection, project_id, placement_id if fallback else None)
        return await _load(connection, project_id, placement_id)


async def delete_placement(database: Database, project_id: str, placement_id: str) -> None:
    """Apps that ask for it then show the fallback."""
    async with changing_catalog(database, project_id) as connection:
        if not await placements.delete(connection, project_id, placement_id):
            raise _missing(placement_id)


async def _load(connection: Connection, project_id: str, placement_id: str) -> Placement:
    placement = await placements.load(connection, project_id, placement_id)
    if placement is None:
        raise _missing(placement_id)
    return placement


def _missing(placement_id: str) -> NotFound:
    return NotFound(f"There is no placement {placement_id!r} in this project.", param="placement_id")
