"""Entitlements, and which products grant them. Attaching and detaching change what existing customers hold at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from latchkey.domain.instants import Ms
from latchkey.domain.naming import checked_id, checked_name
from latchkey.domain.refusal import Conflict, InUse, NotFound
from latchkey.storage.database import Connection, Database, Record
from latchkey.storage.sql import query
from latchkey.usecases.catalog import changing_catalog
from latchkey.usecases.products import Product, product_of

CREATE_ENTITLEMENT = query("create_entitlement")
LOAD_ENTITLEMENT = query("load_entitlement")
LIST_ENTITLEMENTS = query("list_entitlements")
RENAME_ENTITLEMENT = query("rename_entitlement")
DELETE_ENTITLEMENT = query("delete_entitlement")
PRODUCTS_GRANTING = query("products_granting")
KNOWN_PRODUCTS = query("known_products")
LIST_PRODUCTS_OF_ENTITLEMENT = query("list_products_of_entitlement")
ATTACH_PRODUCTS = query("attach_products")
DETACH_PRODUCTS = query("detach_products")


@dataclass(frozen=True, slots=True)
class Entitlement:
    id: str
    display_name: str
    created_at: Ms


async def create_entitlement(
    database: Database, project_id: str, entitlement_id: str, display_name: str, now: Ms
) -> Entitlement:
    checked_id(entitlement_id)
    name = checked_name(display_name, "display_name")
    async with changing_catalog(database, project_id) as connection:
        row = await connection.fetchrow(CREATE_ENTITLEMENT, project_id, entitlement_id, name, now)
        if row is None:
            raise Conflict(f"There is already an entitlement {entitlement_id!r} in this project.", param="id")
    return Entitlement(*row)


async def load_entitlement(database: Database, project_id: str, entitlement_id: str) -> Entitlement:
    async with database.acquire() as connection:
        return await _load(connection, project_id, entitlement_id)


async def list_entitlements(
    database: Database, project_id: str, *, after: str | None = None, limit: int = 100
) -> list[Entitlement]:
    async with database.acquire() as connection:
        return [Entitlement(*row) for row in await connection.fetch(LIST_ENTITLEMENTS, project_id, after, limit)]


async def rename_entitlement(
    database: Database, project_id: str, entitlement_id: str, display_name: str
) -> Entitlement:
    name = checked_name(display_name, "display_name")
    async with changing_catalog(database, project_id) as connection:
        return _found(await connection.fetchrow(RENAME_ENTITLEMENT, project_id, entitlement_id, name), entitlement_id)


async def delete_entitlement(database: Database, project_id: str, entitlement_id: str) -> None:
    """Only one that no product grants: taking access away from customers is a step of its own, never a side effect."""
    async with changing_catalog(database, project_id) as connection:
        await _load(connection, project_id, entitlement_id)
        rows = await connection.fetch(PRODUCTS_GRANTING, project_id, entitlement_id)
        if rows:
            names = ", ".join(repr(row["product_id"]) for row in rows)
            raise InUse(
                f"{entitlement_id!r} is granted by {names}, and customers may hold it by them. "
                "Detach the products first; that is what takes it from customers.",
                param="entitlement_id",
            )
        await connection.execute(DELETE_ENTITLEMENT, project_id, entitlement_id)


async def attach_products(
    database: Database, project_id: str, entitlement_id: str, product_ids: Sequence[str]
) -> Entitlement:
    """All of them, or none where one is unknown. Those that are attached already stay so."""
    async with changing_catalog(database, project_id) as connection:
        entitlement = await _load(connection, project_id, entitlement_id)
        await _all_known(connection, project_id, product_ids, on_sale=True)
        await connection.execute(ATTACH_PRODUCTS, project_id, entitlement_id, list(product_ids))
    return entitlement


async def detach_products(
    database: Database, project_id: str, entitlement_id: str, product_ids: Sequence[str]
) -> Entitlement:
    """Whoever held the entitlement by one of these products alone holds it no more. Deleted products can be named."""
    async with changing_catalog(database, project_id) as connection:
        entitlement = await _load(connection, project_id, entitlement_id)
        await _all_known(connection, project_id, product_ids, on_sale=False)
        await connection.execute(DETACH_PRODUCTS, project_id, entitlement_id, list(product_ids))
    return entitlement


async def list_products_of(
    database: Database, project_id: str, entitlement_id: str, *, after: str | None = None, limit: int = 100
) -> list[Product]:
    """Every product that grants it. Deleted ones are among them, since those who hold them hold the entitlement."""
    async with database.acquire() as connection:
        await _load(connection, project_id, entitlement_id)
        rows = await connection.fetch(LIST_PRODUCTS_OF_ENTITLEMENT, project_id, after, limit, entitlement_id)
    return [product_of(row) for row in rows]


async def _all_known(connection: Connection, project_id: str, product_ids: Sequence[str], *, on_sale: bool) -> None:
    rows = await connection.fetch(KNOWN_PRODUCTS, project_id, list(product_ids))
    known = {row["id"] for row in rows if row["deleted_at"] is None or not on_sale}
    for product_id in product_ids:
        if product_id not in known:
            raise NotFound(f"There is no product {product_id!r} in this project.", param="product_ids")


async def _load(connection: Connection, project_id: str, entitlement_id: str) -> Entitlement:
    return _found(await connection.fetchrow(LOAD_ENTITLEMENT, project_id, entitlement_id), entitlement_id)


def _found(row: Record | None, entitlement_id: str) -> Entitlement:
    if row is None:
        raise NotFound(f"There is no entitlement {entitlement_id!r} in this project.", param="entitlement_id")
    return Entitlement(*row)
