"""The packages of an offering, in order, and the products in them."""

import secrets
from collections.abc import Mapping, Sequence

from latchkey.database.pool import Connection, Database
from latchkey.domain.catalog import Eligibility, Package
from latchkey.domain.instants import Ms
from latchkey.domain.naming import checked_lookup_key, checked_name
from latchkey.domain.pages import items_after
from latchkey.domain.refusal import Conflict, NotFound, Refusal
from latchkey.engine.storage.catalog import offering_rows as storage
from latchkey.engine.storage.catalog.offering_rows import OFFERINGS, Attached
from latchkey.subjects.catalog.usecases.entitlement_catalog import require_known
from latchkey.subjects.catalog.usecases.version import changing_catalog

MOST = 100
MOST_PRODUCTS = 100


async def create_package(
    database: Database,
    project_id: str,
    offering_id: str,
    lookup_key: str,
    display_name: str,
    position: int | None,
    now: Ms,
) -> Package:
    """At the position, or at the end. The packages behind it move on."""
    key, name = checked_lookup_key(lookup_key), checked_name(display_name, "display_name")
    async with changing_catalog(database, project_id) as connection:
        offering = await OFFERINGS.get(connection, project_id, offering_id)
        others = [one.id for one in await storage.of_offering(connection, project_id, offering_id)]
        if len(others) >= MOST:
            raise Refusal(f"An offering has at most {MOST} packages. Delete one first.")
        end = len(others) + 1
        made = Package(key, (), f"pkge_{secrets.token_hex(8)}", offering_id, name, end, now)
        if not await storage.create_package(connection, project_id, made):
            raise Conflict(f"The offering {offering.lookup_key!r} has a package {key!r} already.", param="lookup_key")
        await storage.order(connection, project_id, placed(others, made.id, position or end))
        return await found(connection, project_id, made.id)


async def load_package(database: Database, project_id: str, package_id: str) -> Package:
    async with database.acquire() as connection:
        return await found(connection, project_id, package_id)


async def list_packages(
    database: Database, project_id: str, offering_id: str, after: str | None = None, limit: int = MOST
) -> list[Package]:
    """In order."""
    async with database.acquire() as connection:
        await OFFERINGS.get(connection, project_id, offering_id)
        every = await storage.of_offering(connection, project_id, offering_id)
    return items_after(after, every, "package", lambda package: package.id)[:limit]


async def packages_of(database: Database, project_id: str, offering_ids: Sequence[str]) -> dict[str, list[Package]]:
    """The packages of these offerings, in order."""
    async with database.acquire() as connection:
        return await storage.of_offerings(connection, project_id, offering_ids)


async def products_of(database: Database, project_id: str, package_ids: Sequence[str]) -> dict[str, list[Attached]]:
    """The products of these packages, in the order of attaching."""
    async with database.acquire() as connection:
        return await storage.products(connection, project_id, package_ids)


async def list_products(
    database: Database, project_id: str, package_id: str, after: str | None = None, limit: int = MOST_PRODUCTS
) -> list[Attached]:
    async with database.acquire() as connection:
        await found(connection, project_id, package_id)
        every = (await storage.products(connection, project_id, [package_id]))[package_id]
    return items_after(after, every, "product", lambda attached: attached.product.id)[:limit]


async def update_package(
    database: Database,
    project_id: str,
    package_id: str,
    *,
    display_name: str | None = None,
    position: int | None = None,
) -> Package:
    """What is not given stays as it is."""
    async with changing_catalog(database, project_id) as connection:
        before = await found(connection, project_id, package_id)
        if display_name is not None:
            await storage.rename(connection, project_id, package_id, checked_name(display_name, "display_name"))
        if position is not None:
            every = await storage.of_offering(connection, project_id, before.offering_id)
            others = [one.id for one in every if one.id != package_id]
            await storage.order(connection, project_id, placed(others, package_id, position))
        return await found(connection, project_id, package_id)


async def delete_package(database: Database, project_id: str, package_id: str) -> None:
    """Its products stay in the catalog. The packages behind it close the gap."""
    async with changing_catalog(database, project_id) as connection:
        gone = await found(connection, project_id, package_id)
        await storage.delete_package(connection, project_id, package_id)
        left = await storage.of_offering(connection, project_id, gone.offering_id)
        await storage.order(connection, project_id, [one.id for one in left])


async def attach_products(
    database: Database, project_id: str, package_id: str, attached: Mapping[str, Eligibility]
) -> Package:
    """Attaches all of them, or none if one is unknown. One that is attached already gets the new criteria."""
    async with changing_catalog(database, project_id) as connection:
        package = await found(connection, project_id, package_id)
        await require_known(connection, project_id, list(attached), on_sale=True, param="products")
        there = (await storage.products(connection, project_id, [package_id]))[package_id]
        if len({one.product.id for one in there} | set(attached)) > MOST_PRODUCTS:
            raise Refusal(f"A package has at most {MOST_PRODUCTS} products. Detach one first.")
        await storage.attach(connection, project_id, package_id, attached)
    return package


async def detach_products(database: Database, project_id: str, package_id: str, product_ids: Sequence[str]) -> Package:
    """Idempotent: a product that is not attached stays so."""
    async with changing_catalog(database, project_id) as connection:
        package = await found(connection, project_id, package_id)
        await require_known(connection, project_id, product_ids, on_sale=False)
        await storage.detach(connection, project_id, package_id, product_ids)
    return package


def placed(others: Sequence[str], package_id: str, position: int) -> list[str]:
    """The ids in their new order. A position behind the end is the end."""
    return [*others[: position - 1], package_id, *others[position - 1 :]]


async def found(connection: Connection, project_id: str, package_id: str) -> Package:
    package = await storage.load_package(connection, project_id, package_id)
    if package is None:
        raise NotFound(f"There is no package {package_id!r} in this project.", param="package_id")
    return package
