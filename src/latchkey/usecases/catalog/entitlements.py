"""Entitlements, and which products grant them. Attaching and detaching change customers' access at once."""

from __future__ import annotations

from collections.abc import Sequence

from latchkey.domain.instants import Ms
from latchkey.domain.naming import checked_id, checked_name
from latchkey.domain.refusal import Conflict, InUse, NotFound
from latchkey.storage.catalog import entitlements, products
from latchkey.storage.catalog.entitlements import Entitlement as Entitlement
from latchkey.storage.catalog.products import Product
from latchkey.storage.database import Connection, Database
from latchkey.usecases.catalog.version import changing_catalog


async def create_entitlement(
    database: Database, project_id: str, entitlement_id: str, display_name: str, now: Ms
) -> Entitlement:
    checked_id(entitlement_id)
    name = checked_name(display_name, "display_name")
    async with changing_catalog(database, project_id) as connection:
        created = await entitlements.create(connection, project_id, entitlement_id, name, now)
        if created is None:
            raise Conflict(f"There is already an entitlement {entitlement_id!r} in this project.", param="id")
    return created


async def load_entitlement(database: Database, project_id: str, entitlement_id: str) -> Entitlement:
    async with database.acquire() as connection:
        return await _load(connection, project_id, entitlement_id)


async def list_entitlements(
    database: Database, project_id: str, *, after: str | None = None, limit: int = 100
) -> list[Entitlement]:
    async with database.acquire() as connection:
        return await entitlements.page(connection, project_id, after, limit)


async def rename_entitlement(
    database: Database, project_id: str, entitlement_id: str, display_name: str
) -> Entitlement:
    name = checked_name(display_name, "display_name")
    async with changing_catalog(database, project_id) as connection:
        return _found(await entitlements.rename(connection, project_id, entitlement_id, name), entitlement_id)


async def delete_entitlement(database: Database, project_id: str, entitlement_id: str) -> None:
    """Refused while a product grants it: taking access from customers must be an explicit step, not a side effect."""
    async with changing_catalog(database, project_id) as connection:
        await _load(connection, project_id, entitlement_id)
        granting = await products.page(connection, project_id, entitlement_id=entitlement_id, with_deleted=True)
        if granting:
            names = ", ".join(repr(product.id) for product in granting)
            raise InUse(
                f"{entitlement_id!r} is granted by {names}, and customers may hold it by them. "
                "Detach the products first; that is what takes it from customers.",
                param="entitlement_id",
            )
        await entitlements.delete(connection, project_id, entitlement_id)


async def attach_products(
    database: Database, project_id: str, entitlement_id: str, product_ids: Sequence[str]
) -> Entitlement:
    """Attaches all of them, or none if one is unknown. Idempotent."""
    async with changing_catalog(database, project_id) as connection:
        entitlement = await _load(connection, project_id, entitlement_id)
        await require_known(connection, project_id, product_ids, on_sale=True)
        await entitlements.attach(connection, project_id, entitlement_id, product_ids)
    return entitlement


async def detach_products(
    database: Database, project_id: str, entitlement_id: str, product_ids: Sequence[str], now: Ms
) -> Entitlement:
    """Customers who held the entitlement only through one of these products lose it now. Deleted products can be named
    too."""
    async with changing_catalog(database, project_id) as connection:
        entitlement = await _load(connection, project_id, entitlement_id)
        await require_known(connection, project_id, product_ids, on_sale=False)
        await entitlements.detach(connection, project_id, entitlement_id, product_ids, now)
    return entitlement


async def list_products_of(
    database: Database, project_id: str, entitlement_id: str, *, after: str | None = None, limit: int = 100
) -> list[Product]:
    """Every product that grants it, including deleted ones: their owners still have the entitlement."""
    async with database.acquire() as connection:
        await _load(connection, project_id, entitlement_id)
        return await products.page(
            connection, project_id, after, limit, entitlement_id=entitlement_id, with_deleted=True
        )


async def products_of(
    database: Database, project_id: str, entitlement_ids: Sequence[str], *, limit: int = 101
) -> dict[str, list[Product]]:
    """For each of these entitlements, the first products that grant it, including deleted ones."""
    async with database.acquire() as connection:
        return {
            id: await products.page(connection, project_id, limit=limit, entitlement_id=id, with_deleted=True)
            for id in entitlement_ids
        }


async def require_known(
    connection: Connection,
    project_id: str,
    product_ids: Sequence[str],
    *,
    on_sale: bool,
    param: str = "product_ids",
) -> None:
    """Raises NotFound for a product that does not exist or, if required, is not on sale."""
    known = await products.load_some(connection, project_id, product_ids)
    for product_id in product_ids:
        if product_id not in known or (on_sale and not known[product_id].on_sale):
            raise NotFound(f"There is no product {product_id!r} in this project.", param=param)


async def _load(connection: Connection, project_id: str, entitlement_id: str) -> Entitlement:
    return _found(await entitlements.load(connection, project_id, entitlement_id), entitlement_id)


def _found(entitlement: Entitlement | None, entitlement_id: str) -> Entitlement:
    if entitlement is None:
        raise NotFound(f"There is no entitlement {entitlement_id!r} in this project.", param="entitlement_id")
    return entitlement
