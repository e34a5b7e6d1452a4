"""The packages of offerings, and their products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from latchkey.domain.instants import Ms
from latchkey.domain.offering import Eligibility
from latchkey.storage.catalog.products import Product, product_of
from latchkey.storage.database import Connection, Record
from latchkey.storage.sql import query

_CREATE = query("create_package")
_LIST = query("list_packages")
_RENAME = query("rename_package")
_ORDER = query("order_packages")
_DELETE = query("delete_package")
_PRODUCTS = query("products_of_packages")
_ATTACH = query("attach_to_package")
_DETACH = query("detach_from_package")


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    id: str
    offering_id: str
    lookup_key: str
    display_name: str
    position: int
    created_at: Ms


@dataclass(frozen=True, slots=True)
class Attached:
    """A product of a package."""

    product: Product
    eligibility: Eligibility


async def create(
    connection: Connection,
    project_id: str,
    package_id: str,
    offering_id: str,
    lookup_key: str,
    display_name: str,
    position: int,
    now: Ms,
) -> Package | None:
    """None: the offering has the lookup key already."""
    row = await connection.fetchrow(
        _CREATE, project_id, package_id, offering_id, lookup_key, display_name, position, now
    )
    return None if row is None else _package(row)


async def load(connection: Connection, project_id: str, package_id: str) -> Package | None:
    row = await connection.fetchrow(_LIST, project_id, [], package_id)
    return None if row is None else _package(row)


async def of_offering(connection: Connection, project_id: str, offering_id: str) -> list[Package]:
    """All of them, in order."""
    return (await of_offerings(connection, project_id, [offering_id]))[offering_id]


async def of_offerings(
    connection: Connection, project_id: str, offering_ids: Sequence[str]
) -> dict[str, list[Package]]:
    """By offering, in order."""
    found: dict[str, list[Package]] = {one: [] for one in offering_ids}
    for row in await connection.fetch(_LIST, project_id, list(offering_ids), None):
        found[row["offering_id"]].append(_package(row))
    return found


async def rename(connection: Connection, project_id: str, package_id: str, display_name: str) -> None:
    await connection.execute(_RENAME, project_id, package_id, display_name)


async def order(connection: Connection, project_id: str, package_ids: Sequence[str]) -> None:
    """Gives these packages of one offering the positions 1, 2, 3…"""
    await connection.execute(_ORDER, project_id, list(package_ids))


async def delete(connection: Connection, project_id: str, package_id: str) -> None:
    await connection.execute(_DELETE, project_id, package_id)


async def products(connection: Connection, project_id: str, package_ids: Sequence[str]) -> dict[str, list[Attached]]:
    """By package, in the order of attaching. Deleted products too: they are offered again if they come back."""
    found: dict[str, list[Attached]] = {one: [] for one in package_ids}
    for row in await connection.fetch(_PRODUCTS, project_id, list(package_ids)):
        found[row["package_id"]].append(Attached(product_of(row), Eligibility(row["eligibility_criteria"])))
    return found


async def attach(connection: Connection, project_id: str, package_id: str, attached: Mapping[str, Eligibility]) -> None:
    """By product id."""
    await connection.execute(_ATTACH, project_id, package_id, list(attached), list(attached.values()))


async def detach(connection: Connection, project_id: str, package_id: str, product_ids: Sequence[str]) -> None:
    await connection.execute(_DETACH, project_id, package_id, list(product_ids))


def _package(row: Record) -> Package:
    return Package(
        id=row["id"],
        offering_id=row["offering_id"],
        lookup_key=row["lookup_key"],
        display_name=row["display_name"],
        position=row["position"],
        created_at=row["created_at"],
    )
