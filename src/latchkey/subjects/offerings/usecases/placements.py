"""Placements: which offering an app shows at which of its places. An app asks by the placement's id."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from latchkey.database.pool import Database
from latchkey.domain.catalog import Placement
from latchkey.domain.instants import Ms
from latchkey.domain.naming import checked_id, checked_name
from latchkey.domain.refusal import Conflict, Refusal
from latchkey.engine.storage.catalog import offering_rows as storage
from latchkey.engine.storage.catalog.offering_rows import OFFERINGS, PLACEMENTS
from latchkey.subjects.catalog.usecases.version import changing_catalog

MOST = 500

load_placement = PLACEMENTS.load
list_placements = PLACEMENTS.load_page


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
        if len(await PLACEMENTS.page(connection, project_id, None, MOST)) == MOST:
            raise Refusal(f"A project has at most {MOST} placements. Delete one first.")
        if offering_id is not None:
            await OFFERINGS.get(connection, project_id, offering_id)
        placement = Placement(
            id=placement_id, offering_id=offering_id, is_fallback=is_fallback, display_name=name, created_at=now
        )
        if not await storage.create_placement(connection, project_id, placement):
            raise Conflict(f"There is already a placement {placement_id!r} in this project.", param="id")
    return placement


async def update_placement(
    database: Database, project_id: str, placement_id: str, changes: Mapping[str, Any]
) -> Placement:
    """Changes `display_name`, `offering_id` and `is_fallback` if they are given. There is at most one fallback."""
    async with changing_catalog(database, project_id) as connection:
        before = await PLACEMENTS.get(connection, project_id, placement_id)
        name = checked_name(changes.get("display_name", before.display_name), "display_name")
        placement = replace(before, **{**changes, "display_name": name})
        if placement.offering_id is not None:
            await OFFERINGS.get(connection, project_id, placement.offering_id)
        await storage.update_placement(connection, project_id, placement)
    return placement


async def delete_placement(database: Database, project_id: str, placement_id: str) -> None:
    """Apps that ask for it then show the fallback."""
    async with changing_catalog(database, project_id) as connection:
        if not await storage.delete_placement(connection, project_id, placement_id):
            raise PLACEMENTS.missing(placement_id)
