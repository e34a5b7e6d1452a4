"""The mapping of products to entitlements as one grid, changed in one step or not at all; and how many customers a
change would affect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from latchkey.domain.access.remapping import Grant, Remapping, gains_and_losses, remapped
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Conflict, NotFound
from latchkey.storage.catalog import entitlements
from latchkey.storage.catalog.catalogs import Catalogs, load_version
from latchkey.storage.catalog.entitlements import Grid as Grid
from latchkey.storage.database import Connection, Database
from latchkey.usecases.catalog.version import changing_catalog
from latchkey.usecases.engine.passing_time import at_present
from latchkey.usecases.engine.walk import Progress, mention, walk


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
        if await load_version(connection, project_id) != now_at:
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
    grid = await entitlements.load_mapping(connection, project_id)
    if grid is None:
        raise NotFound(f"There is no project {project_id}.", param="project_id")
    return grid


def _products(grants: frozenset[Grant], entitlement_id: str) -> list[str]:
    return sorted(one.product_id for one in grants if one.entitlement_id == entitlement_id)


@dataclass(frozen=True, slots=True)
class Preview:
    """Customers by entitlement, counted so far."""

    gains: Mapping[str, int] = field(default_factory=dict)
    losses: Mapping[str, int] = field(default_factory=dict)
    place: Progress = field(default_factory=Progress)


async def preview_mapping(
    database: Database,
    catalogs: Catalogs,
    project_id: str,
    change: Remapping,
    version: int,
    now: Ms,
    so_far: Preview | None = None,
    seconds: float | None = None,
) -> Preview:
    """How many customers would gain and lose if the change were made now. Counts for at most `seconds`. If `place.done`
    is false, pass the result as `so_far` to continue."""
    so_far = so_far or Preview()
    async with database.acquire() as connection:
        if await load_version(connection, project_id) != version:
            raise ChangedMeanwhile("The catalog was changed meanwhile.", param="version")
        before = await catalogs.at(connection, project_id, version)
    after = remapped(before, change)
    gains, losses = Counter(so_far.gains), Counter(so_far.losses)

    def look(customer: Customer, lives_at: Ms) -> None:
        gained, lost = gains_and_losses(at_present(customer, before, lives_at), before, after, lives_at)
        gains.update(gained)
        losses.update(lost)

    # A customer who never had one of these products is not affected.
    words = [mention("product_id", product_id) for product_id in change.product_ids]
    place = await walk(database, project_id, words, look, now, so_far.place, seconds)
    return Preview(dict(gains), dict(losses), place)
