"""Entitlements, and which products grant them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from latchkey.domain.access.remapping import Grant
from latchkey.domain.instants import Ms
from latchkey.storage.catalog import products
from latchkey.storage.catalog.products import Product
from latchkey.storage.database import Connection, Record
from latchkey.storage.sql import query

_CREATE = query("create_entitlement")
_PAGE = query("list_entitlements")
_RENAME = query("rename_entitlement")
_DELETE = query("delete_entitlement")
_ATTACH = query("insert_grants")
_FORGET_DETACHED = query("forget_former_grants")
_DETACH = query("remove_grants")
_NOTE_DETACHED = query("insert_former_grants")
_SETTINGS = query("project_settings")


@dataclass(frozen=True, slots=True)
class Entitlement:
    id: str
    display_name: str
    created_at: Ms


async def create(
    connection: Connection, project_id: str, entitlement_id: str, display_name: str, now: Ms
) -> Entitlement | None:
    """None: the id is taken."""
    return _found(await connection.fetchrow(_CREATE, project_id, entitlement_id, display_name, now))


async def load(connection: Connection, project_id: str, entitlement_id: str) -> Entitlement | None:
    return (await load_some(connection, project_id, [entitlement_id])).get(entitlement_id)


async def load_some(connection: Connection, project_id: str, ids: Iterable[str]) -> dict[str, Entitlement]:
    """Those that exist, by id."""
    rows = await connection.fetch(_PAGE, project_id, None, None, sorted(ids))
    return {row["id"]: _entitlement(row) for row in rows}


async def page(connection: Connection, project_id: str, after: str | None, limit: int | None) -> list[Entitlement]:
    """By id; `after` is the last id of the page before."""
    return [_entitlement(row) for row in await connection.fetch(_PAGE, project_id, after, limit, None)]


async def rename(connection: Connection, project_id: str, entitlement_id: str, display_name: str) -> Entitlement | None:
    """None: there is no such entitlement."""
    return _found(await connection.fetchrow(_RENAME, project_id, entitlement_id, display_name))


async def delete(connection: Connection, project_id: str, entitlement_id: str) -> None:
    await connection.execute(_DELETE, project_id, entitlement_id)


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


@dataclass(frozen=True, slots=True)
class Grid:
    """What each product grants. A deleted product is part of it while it still grants something."""

    version: int
    products: list[Product]
    entitlements: list[Entitlement]

    @property
    def grants(self) -> frozenset[Grant]:
        return frozenset(Grant(product.id, id) for product in self.products for id in product.entitlement_ids)


async def load_mapping(connection: Connection, project_id: str) -> Grid | None:
    """None: there is no such project. Whatever changes after the version was read makes the version outdated."""
    settings = await connection.fetchrow(_SETTINGS, [project_id])
    if settings is None:
        return None
    every = await products.page(connection, project_id, with_deleted=True)
    shown = [product for product in every if product.on_sale or product.entitlement_ids]
    return Grid(settings["catalog_version"], shown, await page(connection, project_id, None, None))
