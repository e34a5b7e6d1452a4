"""The mapping of products to entitlements as one grid."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct, json

from latchkey.domain.access.remapping import Grant
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_GRID = query("catalog_grid")


class GridEntitlement(Struct, frozen=True):
    id: str
    name: str


class GridProduct(Struct, frozen=True):
    id: str
    name: str
    # A deleted product can be detached; nothing new can be attached to it.
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


async def load(connection: Connection, project_id: str) -> Grid | None:
    """None: there is no such project."""
    row = await connection.fetchrow(_GRID, project_id)
    if row is None:
        return None
    return Grid(
        version=row["catalog_version"],
        products=_PRODUCTS.decode(row["products"]),
        entitlements=_ENTITLEMENTS.decode(row["entitlements"]),
    )
