"""Placements: which offering an app shows at which of its places. An app asks by the placement's id."""

from collections.abc import Mapping
from typing import Any

from latchkey.database.pool import Connection, Database
from latchkey.domain.instants import Ms
from latchkey.domain.naming import checked_id, checked_name
from latchkey.domain.refusal import Conflict, NotFound, Refusal
from latchkey.engine.storage.catalog import offering_rows as storage
from latchkey.engine.storage.catalog.offering_rows import Placement
from latchkey.subjects.catalog.usecases.version import changing_catalog
from latchkey.subjects.offerings.usecases import offerings

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
        if len(await storage.page_placements(connection, project_id, None, MOST)) == MOST:
            raise Refusal(f"A project has at most {MOST} placements. Delete one first.")
        if offering_id is not None:
            await offerings.found(connection, project_id, offering_id)
        made = await storage.create_placement(connection, project_id, placement_id, name, offering_id, now)
        if made is None:
            raise Conflict(f"There is already a placement {placement_id!r} in this project.", param="id")
        if is_fallback:
            await storage.set_fallback(connection, project_id, placement_id)
        return await _load(connection, project_id, placement_id)


async def load_placement(database: Database, project_id: str, placement_id: str) -> Placement:
    async with database.acquire() as connection:
        return await _load(connection, project_id, placement_id)


async def list_placements(
    database: Database, project_id: str, *, after: str | None = None, limit: int = MOST
) -> list[Placement]:
    """By id."""
    async with database.acquire() as connection:
        return await storage.page_placements(connection, project_id, after, limit)


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
        await storage.update_placement(connection, project_id, placement_id, name, offering_id)
        fallback = changes.get("is_fallback", before.is_fallback)
        if fallback != before.is_fallback:
            await storage.set_fallback(connection, project_id, placement_id if fallback else None)
        return await _load(connection, project_id, placement_id)


async def delete_placement(database: Database, project_id: str, placement_id: str) -> None:
    """Apps that ask for it then show the fallback."""
    async with changing_catalog(database, project_id) as connection:
        if not await storage.delete_placement(connection, project_id, placement_id):
            raise _missing(placement_id)


async def _load(connection: Connection, project_id: str, placement_id: str) -> Placement:
    placement = await storage.load_placement(connection, project_id, placement_id)
    if placement is None:
        raise _missing(placement_id)
    return placement


def _missing(placement_id: str) -> NotFound:
    return NotFound(f"There is no placement {placement_id!r} in this project.", param="placement_id")
