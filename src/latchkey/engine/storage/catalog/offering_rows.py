"""Offerings as an operator edits them, and the one that a customer sees instead of the current one. `shelf.py` parses
them for apps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import json

from latchkey.database.pool import Connection, Record
from latchkey.database.sql import query
from latchkey.domain.catalog import Eligibility
from latchkey.domain.instants import Ms
from latchkey.engine.storage.catalog.product_rows import Product, product_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Offering:
    id: str
    lookup_key: str
    display_name: str
    metadata: Mapping[str, Any] | None
    is_current: bool
    created_at: Ms


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    id: str
    display_name: str
    # None: nothing is offered there.
    offering_id: str | None
    is_fallback: bool
    created_at: Ms


_CREATE_OFFERING = query("create_offering")
_PAGE_OFFERINGS = query("list_offerings")
_UPDATE_OFFERING = query("update_offering")
_SET_CURRENT = query("set_current_offering")
_DELETE_OFFERING = query("delete_offering")
_USES = query("uses_of_offering")


@dataclass(frozen=True, slots=True)
class Uses:
    """What names an offering: ids of placements, names of experiments."""

    placements: list[str]
    experiments: list[str]


async def create_offering(
    connection: Connection,
    project_id: str,
    offering_id: str,
    lookup_key: str,
    display_name: str,
    metadata: Mapping[str, Any] | None,
    now: Ms,
) -> Offering | None:
    """None: the lookup key is taken."""
    stored = _encoded(metadata)
    return _found_offerings(
        await connection.fetchrow(_CREATE_OFFERING, project_id, offering_id, lookup_key, display_name, stored, now)
    )


async def load_offering(connection: Connection, project_id: str, offering_id: str) -> Offering | None:
    return _found_offerings(await connection.fetchrow(_PAGE_OFFERINGS, project_id, None, 1, offering_id))


async def page_offerings(
    connection: Connection, project_id: str, after: str | None, limit: int | None
) -> list[Offering]:
    """Oldest first; `after` is the id of the last offering of the page before."""
    return [_offering(row) for row in await connection.fetch(_PAGE_OFFERINGS, project_id, after, limit, None)]


async def update_offering(
    connection: Connection, project_id: str, offering_id: str, display_name: str, metadata: Mapping[str, Any] | None
) -> None:
    await connection.execute(_UPDATE_OFFERING, project_id, offering_id, display_name, _encoded(metadata))


async def set_current(connection: Connection, project_id: str, offering_id: str | None) -> None:
    """None: no offering is the current one."""
    await connection.execute(_SET_CURRENT, project_id, None)
    if offering_id is not None:
        await connection.execute(_SET_CURRENT, project_id, offering_id)


async def delete_offering(connection: Connection, project_id: str, offering_id: str) -> None:
    await connection.execute(_DELETE_OFFERING, project_id, offering_id)


async def uses(connection: Connection, project_id: str, offering_id: str) -> Uses:
    row = await connection.fetchrow(_USES, project_id, offering_id)
    assert row is not None
    return Uses(row["placements"], row["experiments"])


def _encoded(metadata: Mapping[str, Any] | None) -> bytes | None:
    return None if metadata is None else json.encode(metadata)


def _found_offerings(row: Record | None) -> Offering | None:
    return None if row is None else _offering(row)


def _offering(row: Record) -> Offering:
    return Offering(
        id=row["id"],
        lookup_key=row["lookup_key"],
        display_name=row["display_name"],
        metadata=None if row["metadata"] is None else json.decode(row["metadata"]),
        is_current=row["is_current"],
        created_at=row["created_at"],
    )


_SET = query("override_offering")
_CLEAR = query("clear_offering_override")


async def override(connection: Connection, project_id: str, app_user_id: str, offering_id: str, now: Ms) -> bool:
    """False: there is no such customer."""
    return await connection.fetchval(_SET, project_id, app_user_id, offering_id, now) is not None


async def clear_override(connection: Connection, project_id: str, app_user_id: str) -> None:
    await connection.execute(_CLEAR, project_id, app_user_id)


_CREATE_PACKAGE = query("create_package")
_LIST = query("list_packages")
_RENAME = query("rename_package")
_ORDER = query("order_packages")
_DELETE_PACKAGE = query("delete_package")
_PRODUCTS = query("products_of_packages")
_ATTACH = query("attach_to_package")
_DETACH = query("detach_from_package")


async def create_package(
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
        _CREATE_PACKAGE, project_id, package_id, offering_id, lookup_key, display_name, position, now
    )
    return None if row is None else _package(row)


async def load_package(connection: Connection, project_id: str, package_id: str) -> Package | None:
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


async def delete_package(connection: Connection, project_id: str, package_id: str) -> None:
    await connection.execute(_DELETE_PACKAGE, project_id, package_id)


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


_CREATE_PLACEMENT = query("create_placement")
_PAGE_PLACEMENTS = query("list_placements")
_UPDATE_PLACEMENT = query("update_placement")
_SET_FALLBACK = query("set_fallback_placement")
_DELETE_PLACEMENT = query("delete_placement")


async def create_placement(
    connection: Connection, project_id: str, placement_id: str, display_name: str, offering_id: str | None, now: Ms
) -> Placement | None:
    """None: the id is taken."""
    return _found_placements(
        await connection.fetchrow(_CREATE_PLACEMENT, project_id, placement_id, display_name, offering_id, now)
    )


async def load_placement(connection: Connection, project_id: str, placement_id: str) -> Placement | None:
    return _found_placements(await connection.fetchrow(_PAGE_PLACEMENTS, project_id, None, 1, placement_id))


async def page_placements(
    connection: Connection, project_id: str, after: str | None, limit: int | None
) -> list[Placement]:
    """By id; `after` is the last id of the page before."""
    return [_placement(row) for row in await connection.fetch(_PAGE_PLACEMENTS, project_id, after, limit, None)]


async def update_placement(
    connection: Connection, project_id: str, placement_id: str, display_name: str, offering_id: str | None
) -> None:
    await connection.execute(_UPDATE_PLACEMENT, project_id, placement_id, display_name, offering_id)


async def set_fallback(connection: Connection, project_id: str, placement_id: str | None) -> None:
    """None: no placement is the fallback."""
    await connection.execute(_SET_FALLBACK, project_id, None)
    if placement_id is not None:
        await connection.execute(_SET_FALLBACK, project_id, placement_id)


async def delete_placement(connection: Connection, project_id: str, placement_id: str) -> bool:
    """False: there is no such placement."""
    return await connection.execute(_DELETE_PLACEMENT, project_id, placement_id) != "DELETE 0"


def _found_placements(row: Record | None) -> Placement | None:
    return None if row is None else _placement(row)


def _placement(row: Record) -> Placement:
    return Placement(
        id=row["id"],
        display_name=row["display_name"],
        offering_id=row["offering_id"],
        is_fallback=row["is_fallback"],
        created_at=row["created_at"],
    )
