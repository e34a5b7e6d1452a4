"""The mapping of products to entitlements as a whole: shown as a grid, changed in one step or not at all."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct, json

from latchkey.domain.refusal import Conflict, NotFound
from latchkey.domain.remapping import Grant, Remapping
from latchkey.storage.database import Connection, Database
from latchkey.storage.sql import query
from latchkey.usecases.catalog import changing_catalog

_GRID = query("catalog_grid")
_VERSION = query("catalog_version")
_ATTACH = query("attach_products")
_DETACH = query("detach_products")


class ChangedMeanwhile(Conflict):
    """Somebody else changed the catalog after it was looked at."""


class GridEntitlement(Struct, frozen=True):
    id: str
    name: str


class GridProduct(Struct, frozen=True):
    id: str
    name: str
    # A deleted product can give up what it grants; nothing new can be attached to it.
    on_sale: bool
    grants: list[str]


@dataclass(frozen=True, slots=True)
class Grid:
    version: int
    products: list[GridProduct]
    entitlements: list[GridEntitlement]

    @property
    def grants(self) -> frozenset[Grant]:
        return frozenset(Grant(product.id, one) for product in self.products for one in product.grants)


_PRODUCTS = json.Decoder(list[GridProduct])
_ENTITLEMENTS = json.Decoder(list[GridEntitlement])


async def load_grid(database: Database, project_id: str) -> Grid:
    async with database.acquire() as connection:
        return await _load(connection, project_id)


async def save_mapping(database: Database, project_id: str, change: Remapping, version: int) -> int:
    """All of it, if the catalog is still at this version; the version it is at then."""
    async with changing_catalog(database, project_id) as connection:
        # Our own announcement is one; whatever else was announced since `version` was somebody else's.
        now_at: int = await connection.fetchval(_VERSION, project_id)
        if now_at != version + 1:
            raise ChangedMeanwhile("The catalog was changed meanwhile, so nothing was saved.", param="version")
        require_possible(await _load(connection, project_id), change)
        for entitlement_id in change.entitlement_ids:
            await connection.execute(_ATTACH, project_id, entitlement_id, _products(change.attached, entitlement_id))
            await connection.execute(_DETACH, project_id, entitlement_id, _products(change.detached, entitlement_id))
    return now_at


def require_possible(grid: Grid, change: Remapping) -> None:
    """Only what is in the grid can be mapped, and only what is on sale can be given more to grant."""
    entitlements = {one.id for one in grid.entitlements}
    products = {one.id for one in grid.products}
    on_sale = {one.id for one in grid.products if one.on_sale}
    for one in sorted(change.attached | change.detached):
        if one.entitlement_id not in entitlements:
            raise NotFound(f"There is no entitlement {one.entitlement_id!r} in this project.", param="grant")
        if one.product_id not in (on_sale if one in change.attached else products):
            raise NotFound(f"There is no product {one.product_id!r} in this project.", param="grant")


async def _load(connection: Connection, project_id: str) -> Grid:
    row = await connection.fetchrow(_GRID, project_id)
    if row is None:
        raise NotFound(f"There is no project {project_id}.", param="project_id")
    return Grid(row["catalog_version"], _PRODUCTS.decode(row["products"]), _ENTITLEMENTS.decode(row["entitlements"]))


def _products(grants: frozenset[Grant], entitlement_id: str) -> list[str]:
    return sorted(one.product_id for one in grants if one.entitlement_id == entitlement_id)
