"""Offerings: what apps show to their users, in packages, and at placements. `rules.py` decides what one app sees."""

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import json
from msgspec.structs import replace

from latchkey.database import transient_errors
from latchkey.database.errors import CollisionError
from latchkey.database.pool import Connection, Database, Executor
from latchkey.domain.catalog import Catalog, Eligibility, Offering, Package, Placement
from latchkey.domain.customers.customer import LastSeen
from latchkey.domain.instants import Ms
from latchkey.domain.naming import checked_id, checked_lookup_key, checked_name
from latchkey.domain.pages import items_after
from latchkey.domain.refusal import Conflict, InUse, Invalid, NotFound, Refusal, found
from latchkey.engine.changes import Change, Changes
from latchkey.engine.storage import state
from latchkey.engine.storage.catalog import offering_rows
from latchkey.engine.storage.catalog.app_rows import APPS, App
from latchkey.engine.storage.catalog.catalogs import load_offering_choice
from latchkey.engine.storage.catalog.offering_rows import OFFERINGS, PLACEMENTS, Attached
from latchkey.engine.storage.read_rows import load_projects
from latchkey.subjects.catalog.usecases.entitlement_catalog import require_known
from latchkey.subjects.catalog.usecases.version import changing_catalog
from latchkey.subjects.offerings.rules import AskingApp, Storefront, placed, storefront
from latchkey.subjects.targeting.usecases import rule_for

MOST_OFFERINGS = 500
# Every app reads the metadata at every start.
LARGEST_METADATA = 65_536

load_offering = OFFERINGS.get
list_offerings = OFFERINGS.load_page


async def create_offering(
    database: Database,
    project_id: str,
    lookup_key: str,
    display_name: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    *,
    now: Ms,
) -> Offering:
    """The first offering of a project is the current one at once."""
    made = Offering(
        id=f"ofrng_{secrets.token_hex(8)}",
        lookup_key=checked_lookup_key(lookup_key),
        display_name=_named(lookup_key if display_name is None else display_name),
        metadata=_checked(metadata),
        created_at=now,
    )
    async with changing_catalog(database, project_id) as connection:
        made = replace(made, is_current=not await OFFERINGS.require_room(connection, project_id, MOST_OFFERINGS))
        is_new = await offering_rows.create_offering(connection, project_id, made)
        OFFERINGS.require_new(is_new, made.lookup_key, "lookup_key")
    return made


async def update_offering(database: Database, project_id: str, /, offering_id: str, **changes: Any) -> Offering:
    """Changes `display_name`, `metadata` and `is_current` if they are given. There is at most one current offering."""
    async with changing_catalog(database, project_id) as connection:
        changed = replace(await OFFERINGS.get(connection, project_id, offering_id), **changes)
        changed = replace(changed, display_name=_named(changed.display_name), metadata=_checked(changed.metadata))
        if changed.is_current:
            await offering_rows.clear_current(connection, project_id)
        await offering_rows.update_offering(connection, project_id, changed)
    return changed


def _named(display_name: str) -> str:
    return checked_name(display_name, "display_name")


async def delete_offering(database: Database, project_id: str, offering_id: str) -> None:
    """Refused while something names it: apps would suddenly show another offering, or none. Its packages are deleted
    with it, and customers to whom it was assigned see the current offering again."""
    async with changing_catalog(database, project_id) as connection:
        one = await OFFERINGS.get(connection, project_id, offering_id)
        [uses] = await offering_rows.uses(connection, project_id, offering_id)
        in_use = [
            *(["it is the current offering"] if one.is_current else []),
            *(f"the placement {placement!r} shows it" for placement in uses.placements),
            *(f"the experiment {experiment!r} shows it" for experiment in uses.experiments),
            *(f"the targeting rule {rule!r} shows it" for rule in uses.rules),
        ]
        if in_use:
            raise InUse(
                f"{one.lookup_key!r} is still used: {', '.join(in_use)}. Change that first.", param="offering_id"
            )
        await offering_rows.delete_offering(connection, project_id, offering_id)


def _checked(metadata: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if metadata is not None and len(json.encode(metadata)) > LARGEST_METADATA:
        raise Invalid(f"The metadata has at most {LARGEST_METADATA:,} bytes as JSON.", param="metadata")
    if _has_nul(metadata):
        raise Invalid("A text in the metadata contains the NUL character (\\u0000).", param="metadata")
    return metadata


def _has_nul(value: Any) -> bool:
    match value:
        case str():
            return "\0" in value
        case list():
            return any(map(_has_nul, value))
        case dict():
            return any(_has_nul(one) for pair in value.items() for one in pair)
        case _:
            return False


@dataclass(frozen=True, slots=True)
class Previews:
    """What each app of a project shows to a customer without an offering of its own."""

    catalog: Catalog
    apps: list[tuple[App, Storefront]]


async def load_storefront(
    changes: Changes, project_id: str, place: AskingApp, app_user_id: str, now: Ms, visit: LastSeen | None = None
) -> Storefront:
    """The customer need not exist. `visit` is what the app that asks says of itself."""
    async with changes.database.acquire() as connection:
        choice = await load_offering_choice(connection, changes.catalogs, project_id, app_user_id)
    rule = rule_for(choice, project_id, app_user_id, visit, now)
    return storefront(choice.catalog, place, choice.override, choice.enrolled, rule)


async def load_previews(changes: Changes, project_id: str) -> Previews:
    async with changes.database.acquire() as connection:
        known = await load_projects(connection, changes.catalogs, {project_id})
        apps = await APPS.page(connection, project_id)
    catalog = known[project_id].catalog
    return Previews(catalog, [(app, storefront(catalog, AskingApp(app.id, app.store))) for app in apps])


async def assign_offering(
    changes: Changes, project_id: str, app_user_id: str, offering_id: str, *, create: bool = False
) -> None:
    """With `create`, an unknown customer is created."""
    offering = await load_offering(changes.database, project_id, offering_id)
    if create:
        unchanged = Change(
            project_id=project_id, app_user_id=app_user_id, apply=lambda situation: situation.customer, create=True
        )
        await changes.make(unchanged)
    try:
        async with transient_errors.hot_transaction(changes.database) as connection:
            if not await offering_rows.override(connection, project_id, app_user_id, offering.id):
                raise _missing(app_user_id)
    except CollisionError:
        # Somebody deleted the offering meanwhile.
        await load_offering(changes.database, project_id, offering_id)
        raise


async def clear_offering(changes: Changes, project_id: str, app_user_id: str) -> None:
    """The customer sees the current offering again. Idempotent."""
    async with changes.database.transaction() as connection:
        if await state.key_of(connection, project_id, app_user_id) is None:
            raise _missing(app_user_id)
        await offering_rows.clear_override(connection, project_id, app_user_id)


def _missing(app_user_id: str) -> NotFound:
    return NotFound(f"There is no customer {app_user_id!r} in this project.", param="app_user_id")


MOST_PACKAGES = 100
MOST_PRODUCTS = 100


async def create_package(
    database: Database,
    project_id: str,
    offering_id: str,
    lookup_key: str,
    display_name: str | None = None,
    position: int | None = None,
    *,
    now: Ms,
) -> Package:
    """At the position, or at the end. The packages behind it move on."""
    key, name = checked_lookup_key(lookup_key), _named(lookup_key if display_name is None else display_name)
    async with changing_catalog(database, project_id) as connection:
        offering = await OFFERINGS.get(connection, project_id, offering_id)
        others = [one.id for one in await offering_rows.of_offering(connection, project_id, offering_id)]
        if len(others) >= MOST_PACKAGES:
            raise Refusal(f"An offering has at most {MOST_PACKAGES} packages. Delete one first.")
        end = len(others) + 1
        made = Package(key, (), f"pkge_{secrets.token_hex(8)}", offering_id, name, end, now)
        if not await offering_rows.create_package(connection, project_id, made):
            raise Conflict(f"The offering {offering.lookup_key!r} has a package {key!r} already.", param="lookup_key")
        await offering_rows.order(connection, project_id, placed(others, made.id, position or end))
        return await load_package(connection, project_id, made.id)


async def list_packages(
    database: Database, project_id: str, offering_id: str, after: str | None = None, limit: int = MOST_PACKAGES
) -> list[Package]:
    """In order."""
    async with database.acquire() as connection:
        await OFFERINGS.get(connection, project_id, offering_id)
        every = await offering_rows.of_offering(connection, project_id, offering_id)
    return items_after(after, every, "package", lambda package: package.id)[:limit]


packages_of = offering_rows.of_offerings
products_of = offering_rows.products


async def list_products(
    database: Database, project_id: str, package_id: str, after: str | None = None, limit: int = MOST_PRODUCTS
) -> list[Attached]:
    async with database.acquire() as connection:
        await load_package(connection, project_id, package_id)
        every = (await offering_rows.products(connection, project_id, [package_id]))[package_id]
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
        before = await load_package(connection, project_id, package_id)
        if display_name is not None:
            await offering_rows.rename(connection, project_id, package_id, checked_name(display_name, "display_name"))
        if position is not None:
            every = await offering_rows.of_offering(connection, project_id, before.offering_id)
            others = [one.id for one in every if one.id != package_id]
            await offering_rows.order(connection, project_id, placed(others, package_id, position))
        return await load_package(connection, project_id, package_id)


async def delete_package(database: Database, project_id: str, package_id: str) -> None:
    """Its products stay in the catalog. The packages behind it close the gap."""
    async with changing_catalog(database, project_id) as connection:
        gone = await load_package(connection, project_id, package_id)
        await offering_rows.delete_package(connection, project_id, package_id)
        left = await offering_rows.of_offering(connection, project_id, gone.offering_id)
        await offering_rows.order(connection, project_id, [one.id for one in left])


async def attach_products(
    database: Database, project_id: str, package_id: str, attached: Mapping[str, Eligibility]
) -> Package:
    """Attaches all of them, or none if one is unknown. One that is attached already gets the new criteria."""
    async with changing_catalog(database, project_id) as connection:
        package = await load_package(connection, project_id, package_id)
        await require_known(connection, project_id, list(attached), on_sale=True, param="products")
        there = (await offering_rows.products(connection, project_id, [package_id]))[package_id]
        if len({one.product.id for one in there} | set(attached)) > MOST_PRODUCTS:
            raise Refusal(f"A package has at most {MOST_PRODUCTS} products. Detach one first.")
        await offering_rows.attach(connection, project_id, package_id, attached)
    return package


async def detach_products(database: Database, project_id: str, package_id: str, product_ids: Sequence[str]) -> Package:
    """Idempotent: a product that is not attached stays so."""
    async with changing_catalog(database, project_id) as connection:
        package = await load_package(connection, project_id, package_id)
        await require_known(connection, project_id, product_ids, on_sale=False)
        await offering_rows.detach(connection, project_id, package_id, product_ids)
    return package


async def load_package(connection: Executor, project_id: str, package_id: str) -> Package:
    package = await offering_rows.load_package(connection, project_id, package_id)
    return found(package, f"There is no package {package_id!r} in this project.", "package_id")


MOST_PLACEMENTS = 500

load_placement = PLACEMENTS.get
list_placements = PLACEMENTS.load_page


async def create_placement(
    database: Database,
    project_id: str,
    id: str,
    display_name: str | None = None,
    offering_id: str | None = None,
    *,
    is_fallback: bool = False,
    now: Ms,
) -> Placement:
    """Without an offering nothing is offered there."""
    name = _named(checked_id(id) if display_name is None else display_name)
    made = Placement(
        id=checked_id(id), offering_id=offering_id, is_fallback=is_fallback, display_name=name, created_at=now
    )
    async with changing_catalog(database, project_id) as connection:
        await PLACEMENTS.require_room(connection, project_id, MOST_PLACEMENTS)
        PLACEMENTS.require_new(await _save(connection, project_id, made, offering_rows.create_placement), id)
    return made


async def update_placement(database: Database, project_id: str, /, placement_id: str, **changes: Any) -> Placement:
    """Changes `display_name`, `offering_id` and `is_fallback` if they are given. There is at most one fallback."""
    async with changing_catalog(database, project_id) as connection:
        changed = replace(await PLACEMENTS.get(connection, project_id, placement_id), **changes)
        changed = replace(changed, display_name=_named(changed.display_name))
        await _save(connection, project_id, changed, offering_rows.update_placement)
    return changed


async def _save(
    connection: Connection, project_id: str, placement: Placement, save: Callable[..., Awaitable[bool]]
) -> bool:
    if placement.offering_id is not None:
        await OFFERINGS.get(connection, project_id, placement.offering_id)
    if placement.is_fallback:
        await offering_rows.clear_fallback(connection, project_id)
    return await save(connection, project_id, placement)


async def delete_placement(database: Database, project_id: str, placement_id: str) -> None:
    """Apps that ask for it then show the fallback."""
    async with changing_catalog(database, project_id) as connection:
        if not await offering_rows.delete_placement(connection, project_id, placement_id):
            raise PLACEMENTS.missing(placement_id)
