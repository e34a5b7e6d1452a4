"""Offerings with their packages and placements, and the offering that a customer sees instead of the current one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from msgspec import json

from latchkey.database.pool import Connection, Executor, Record
from latchkey.database.rows import Listing, fetch_all, fetch_one, item_of
from latchkey.database.sql import query
from latchkey.domain.catalog import Eligibility, Offering, Package, Placement, Product
from latchkey.domain.instants import Ms
from latchkey.engine.storage.catalog.product_rows import product_of

_PACKAGES = query("list_packages")


def _offering(row: Record) -> Offering:
    return item_of(Offering, row, metadata=json.decode(row["metadata"] or b"null"))


OFFERINGS = Listing("offering", query("list_offerings"), _offering, by_age=True)
PLACEMENTS = Listing("placement", query("list_placements"), partial(item_of, Placement))


@dataclass(frozen=True, slots=True)
class Attached:
    """A product of a package."""

    product: Product
    eligibility: Eligibility


@dataclass(frozen=True, slots=True)
class Uses:
    """What names an offering: ids of placements, names of experiments."""

    placements: list[str]
    experiments: list[str]


async def create_offering(connection: Connection, project_id: str, offering: Offering) -> bool:
    """False: the lookup key is taken."""
    values = _values(offering)
    made = await connection.execute(
        query("create_offering"), project_id, offering.id, *values, offering.lookup_key, offering.created_at
    )
    return made != "INSERT 0 0"


async def update_offering(connection: Connection, project_id: str, offering: Offering) -> None:
    """There is at most one current offering."""
    if offering.is_current:
        await connection.execute(query("clear_current_offering"), project_id)
    await connection.execute(query("update_offering"), project_id, offering.id, *_values(offering))


def _values(offering: Offering) -> tuple[str, bytes | None, bool]:
    metadata = None if offering.metadata is None else json.encode(offering.metadata)
    return offering.display_name, metadata, offering.is_current


async def delete_offering(connection: Connection, project_id: str, offering_id: str) -> None:
    await connection.execute(query("delete_offering"), project_id, offering_id)


async def uses(connection: Connection, project_id: str, offering_id: str) -> Uses:
    [found] = await fetch_all(connection, Uses, query("uses_of_offering"), project_id, offering_id)
    return found


async def override(connection: Connection, project_id: str, app_user_id: str, offering_id: str) -> bool:
    """False: there is no such customer."""
    return await connection.fetchval(query("override_offering"), project_id, app_user_id, offering_id) is not None


async def clear_override(connection: Connection, project_id: str, app_user_id: str) -> None:
    await connection.execute(query("clear_offering_override"), project_id, app_user_id)


async def create_package(connection: Connection, project_id: str, package: Package) -> bool:
    """False: the offering has the lookup key already."""
    names = package.lookup_key, package.display_name
    made = await connection.execute(
        query("create_package"),
        project_id,
        package.id,
        package.offering_id,
        *names,
        package.position,
        package.created_at,
    )
    return made != "INSERT 0 0"


async def load_package(connection: Executor, project_id: str, package_id: str) -> Package | None:
    return await fetch_one(connection, Package, _PACKAGES, project_id, [], package_id)


async def of_offering(connection: Connection, project_id: str, offering_id: str) -> list[Package]:
    """All of them, in order."""
    return (await of_offerings(connection, project_id, [offering_id]))[offering_id]


async def of_offerings(connection: Executor, project_id: str, offering_ids: Sequence[str]) -> dict[str, list[Package]]:
    """By offering, in order."""
    found: dict[str, list[Package]] = {id: [] for id in offering_ids}
    for package in await fetch_all(connection, Package, _PACKAGES, project_id, list(offering_ids), None):
        found[package.offering_id].append(package)
    return found


async def rename(connection: Connection, project_id: str, package_id: str, display_name: str) -> None:
    await connection.execute(query("rename_package"), project_id, package_id, display_name)


async def order(connection: Connection, project_id: str, package_ids: Sequence[str]) -> None:
    """Gives these packages of one offering the positions 1, 2, 3…"""
    await connection.execute(query("order_packages"), project_id, list(package_ids))


async def delete_package(connection: Connection, project_id: str, package_id: str) -> None:
    await connection.execute(query("delete_package"), project_id, package_id)


async def products(connection: Executor, project_id: str, package_ids: Sequence[str]) -> dict[str, list[Attached]]:
    """By package, in the order of attaching. Deleted products too: they are offered again if they come back."""
    found: dict[str, list[Attached]] = {id: [] for id in package_ids}
    for row in await connection.fetch(query("products_of_packages"), project_id, list(package_ids)):
        found[row["package_id"]].append(Attached(product_of(row), Eligibility(row["eligibility_criteria"])))
    return found


async def attach(connection: Connection, project_id: str, package_id: str, attached: Mapping[str, Eligibility]) -> None:
    """By product id."""
    await connection.execute(
        query("attach_to_package"), project_id, package_id, list(attached), list(attached.values())
    )


async def detach(connection: Connection, project_id: str, package_id: str, product_ids: Sequence[str]) -> None:
    await connection.execute(query("detach_from_package"), project_id, package_id, list(product_ids))


async def create_placement(connection: Connection, project_id: str, placement: Placement) -> bool:
    """False: the id is taken."""
    return (
        await _save(connection, query("create_placement"), project_id, placement, placement.created_at) != "INSERT 0 0"
    )


async def update_placement(connection: Connection, project_id: str, placement: Placement) -> None:
    await _save(connection, query("update_placement"), project_id, placement)


async def _save(connection: Connection, statement: str, project_id: str, placement: Placement, *others: Ms) -> str:
    """There is at most one fallback."""
    if placement.is_fallback:
        await connection.execute(query("clear_fallback_placement"), project_id)
    values = placement.display_name, placement.offering_id, placement.is_fallback
    return await connection.execute(statement, project_id, placement.id, *values, *others)


async def delete_placement(connection: Connection, project_id: str, placement_id: str) -> bool:
    """False: there is no such placement."""
    return await connection.execute(query("delete_placement"), project_id, placement_id) != "DELETE 0"
