"""Entitlements, and which products grant them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec import Struct, json

from latchkey.domain.access.remapping import Grant
from latchkey.domain.instants import Ms
from latchkey.storage.catalog.products import Product, product_of
from latchkey.storage.database import Connection, Record
from latchkey.storage.sql import query

_CREATE = query("create_entitlement")
_LOAD = query("load_entitlement")
_LOAD_SOME = query("load_entitlements")
_PAGE = query("list_entitlements")
_RENAME = query("rename_entitlement")
_DELETE = query("delete_entitlement")
_PRODUCTS_GRANTING = query("products_granting")
_KNOWN_PRODUCTS = query("known_products")
_PRODUCTS_OF = query("list_products_of_entitlement")
_ATTACH = query("insert_grants")
_FORGET_DETACHED = query("forget_former_grants")
_DETACH = query("remove_grants")
_NOTE_DETACHED = query("insert_former_grants")


@dataclass(frozen=True, slots=True)
class Entitlement:
    id: str
    display_name: str
    created_at: Ms


@dataclass(frozen=True, slots=True)
class KnownProduct:
    id: str
    on_sale: bool


async def create(
    connection: Connection, project_id: str, entitlement_id: str, display_name: str, now: Ms
) -> Entitlement | None:
    """None: the id is taken."""
    return _found(await connection.fetchrow(_CREATE, project_id, entitlement_id, display_name, now))


async def load(connection: Connection, project_id: str, entitlement_id: str) -> Entitlement | None:
    return _found(await connection.fetchrow(_LOAD, project_id, entitlement_id))


async def load_some(connection: Connection, project_id: str, ids: Iterable[str]) -> dict[str, Entitlement]:
    """Those that exist, by id."""
    rows = await connection.fetch(_LOAD_SOME, project_id, sorted(ids))
    return {row["id"]: _entitlement(row) for row in rows}


async def page(connection: Connection, project_id: str, after: str | None, limit: int) -> list[Entitlement]:
    """By id; `after` is the last id of the page before."""
    return [_entitlement(row) for row in await connection.fetch(_PAGE, project_id, after, limit)]


async def rename(connection: Connection, project_id: str, entitlement_id: str, display_name: str) -> Entitlement | None:
    """None: there is no such entitlement."""
    return _found(await connection.fetchrow(_RENAME, project_id, entitlement_id, display_name))


async def delete(connection: Connection, project_id: str, entitlement_id: str) -> None:
    await connection.execute(_DELETE, project_id, entitlement_id)


async def products_granting(connection: Connection, project_id: str, entitlement_id: str) -> list[str]:
    rows = await connection.fetch(_PRODUCTS_GRANTING, project_id, entitlement_id)
    return [row["product_id"] for row in rows]


async def known_products(connection: Connection, project_id: str, product_ids: Sequence[str]) -> list[KnownProduct]:
    """Those of the given products that exist, including deleted ones."""
    rows = await connection.fetch(_KNOWN_PRODUCTS, project_id, list(product_ids))
    return [KnownProduct(row["id"], row["deleted_at"] is None) for row in rows]


async def page_of_products(
    connection: Connection, project_id: str, entitlement_id: str, after: str | None, limit: int
) -> list[Product]:
    """Every product that grants it, including deleted ones, by id."""
    rows = await connection.fetch(_PRODUCTS_OF, project_id, after, limit, entitlement_id)
    return [product_of(row) for row in rows]


async def attach(connection: Connection, project_id: str, entitlement_id: str, product_ids: Sequence[str]) -> None:
    """As if they had never been detached."""
    async with connection.transaction():
        for statement in (_FORGET_DETACHED, _ATTACH):
            await connection.execute(statement, project_id, entitlement_id, list(product_ids))


async def detach(
    connection: Connection, project_id: str, entitlement_id: str, product_ids: Sequence[str], now: Ms
) -> None:
    """Records when customers who own one of these products lost the entitlement."""
    async with connection.transaction():
        rows = await connection.fetch(_DETACH, project_id, entitlement_id, list(product_ids))
        gone = [row["product_id"] for row in rows]
        await connection.execute(_NOTE_DETACHED, project_id, entitlement_id, gone, now)


def _found(row: Record | None) -> Entitlement | None:
    return None if row is None else _entitlement(row)


def _entitlement(row: Record) -> Entitlement:
    return Entitlement(id=row["id"], display_name=row["display_name"], created_at=row["created_at"])


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


async def load_mapping(connection: Connection, project_id: str) -> Grid | None:
    """None: there is no such project."""
    row = await connection.fetchrow(_GRID, project_id)
    if row is None:
        return None
    return Grid(
        version=row["catalog_version"],
        products=_PRODUCTS.decode(row["products"]),
        entitlements=_ENTITLEMENTS.decode(row["entitlements"]),
    )
