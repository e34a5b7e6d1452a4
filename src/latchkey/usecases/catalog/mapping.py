"""The mapping of products to entitlements as one grid, changed in one step or not at all."""

from __future__ import annotations

from latchkey.domain.access.remapping import Grant, Remapping
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Conflict, NotFound
from latchkey.storage.catalog import entitlements, mapping
from latchkey.storage.catalog import version as versions
from latchkey.storage.catalog.mapping import Grid as Grid
from latchkey.storage.catalog.mapping import GridEntitlement as GridEntitlement
from latchkey.storage.catalog.mapping import GridProduct as GridProduct
from latchkey.storage.database import Connection, Database
from latchkey.usecases.catalog.version import changing_catalog


class ChangedMeanwhile(Conflict):
    """Somebody else changed the catalog after it was read."""


async def load_grid(database: Database, project_id: str) -> Grid:
    async with database.acquire() as connection:
        return await _load(connection, project_id)


async def save_mapping(database: Database, project_id: str, change: Remapping, version: int, now: Ms) -> int:
    """Saves the whole change if the catalog is still at `version`, and returns the new version."""
    async with changing_catalog(database, project_id) as connection:
        # `changing_catalog` has incremented the version. Any other difference is a change by somebody else.
        now_at = version + 1
        if await versions.load(connection, project_id) != now_at:
            raise ChangedMeanwhile("The catalog was changed meanwhile, so nothing was saved.", param="version")
        require_possible(await _load(connection, project_id), change)
        for entitlement_id in change.entitlement_ids:
            attached, detached = (_products(one, entitlement_id) for one in (change.attached, change.detached))
            await entitlements.attach(connection, project_id, entitlement_id, attached)
            await entitlements.detach(connection, project_id, entitlement_id, detached, now)
    return now_at


def require_possible(grid: Grid, change: Remapping) -> None:
    """Only products and entitlements of the grid can be mapped; a deleted product cannot get new grants."""
    known = {one.id for one in grid.entitlements}
    products = {one.id for one in grid.products}
    on_sale = {one.id for one in grid.products if one.on_sale}
    for one in sorted(change.attached | change.detached):
        if one.entitlement_id not in known:
            raise NotFound(f"There is no entitlement {one.entitlement_id!r} in this project.", param="grant")
        if one.product_id not in (on_sale if one in change.attached else products):
            raise NotFound(f"There is no product {one.product_id!r} in this project.", param="grant")


async def _load(connection: Connection, project_id: str) -> Grid:
    grid = await mapping.load(connection, project_id)
    if grid is None:
        raise NotFound(f"There is no project {project_id}.", param="project_id")
    return grid


def _products(grants: frozenset[Grant], entitlement_id: str) -> list[str]:
    return sorted(one.product_id for one in grants if one.entitlement_id == entitlement_id)
