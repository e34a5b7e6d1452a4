"""Offerings: what apps show to their users. `packages.py` fills them. The rules are in `domain/storefront.py`."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from msgspec import json

from latchkey.database import transient_errors
from latchkey.database.errors import CollisionError
from latchkey.database.pool import Database
from latchkey.domain.catalog import Catalog, Offering
from latchkey.domain.instants import Ms
from latchkey.domain.naming import checked_lookup_key, checked_name
from latchkey.domain.refusal import Conflict, InUse, Invalid, NotFound, Refusal
from latchkey.domain.storefront import AskingApp, Storefront, storefront
from latchkey.engine.changes import Change, Changes
from latchkey.engine.storage import state
from latchkey.engine.storage.catalog import offering_rows as storage
from latchkey.engine.storage.catalog.app_rows import APPS, App
from latchkey.engine.storage.catalog.catalogs import load_offering_choice
from latchkey.engine.storage.catalog.offering_rows import OFFERINGS
from latchkey.engine.storage.read_rows import load_projects
from latchkey.subjects.catalog.usecases.version import changing_catalog

MOST = 500
# Every app reads the metadata at every start.
LARGEST_METADATA = 65_536

load_offering = OFFERINGS.load
list_offerings = OFFERINGS.load_page


async def create_offering(
    database: Database,
    project_id: str,
    lookup_key: str,
    display_name: str,
    metadata: Mapping[str, Any] | None,
    now: Ms,
) -> Offering:
    """The first offering of a project is the current one at once."""
    key, name = checked_lookup_key(lookup_key), checked_name(display_name, "display_name")
    _check(metadata)
    async with changing_catalog(database, project_id) as connection:
        known = await OFFERINGS.page(connection, project_id, None, MOST)
        if len(known) == MOST:
            raise Refusal(f"A project has at most {MOST} offerings. Delete one first.")
        offering = Offering(
            id=f"ofrng_{secrets.token_hex(8)}",
            lookup_key=key,
            display_name=name,
            metadata=metadata,
            is_current=not known,
            created_at=now,
        )
        if not await storage.create_offering(connection, project_id, offering):
            raise Conflict(f"There is already an offering {key!r} in this project.", param="lookup_key")
    return offering


async def update_offering(
    database: Database, project_id: str, offering_id: str, changes: Mapping[str, Any]
) -> Offering:
    """Changes `display_name`, `metadata` and `is_current` if they are given. There is at most one current offering."""
    async with changing_catalog(database, project_id) as connection:
        before = await OFFERINGS.get(connection, project_id, offering_id)
        name = checked_name(changes.get("display_name", before.display_name), "display_name")
        offering = replace(before, **{**changes, "display_name": name})
        _check(offering.metadata)
        await storage.update_offering(connection, project_id, offering)
    return offering


async def delete_offering(database: Database, project_id: str, offering_id: str) -> None:
    """Refused while something names it: apps would suddenly show another offering, or none. Its packages are deleted
    with it, and customers to whom it was assigned see the current offering again."""
    async with changing_catalog(database, project_id) as connection:
        one = await OFFERINGS.get(connection, project_id, offering_id)
        uses = await storage.uses(connection, project_id, offering_id)
        in_use = [
            *(["it is the current offering"] if one.is_current else []),
            *(f"the placement {placement!r} shows it" for placement in uses.placements),
            *(f"the experiment {experiment!r} shows it" for experiment in uses.experiments),
        ]
        if in_use:
            raise InUse(
                f"{one.lookup_key!r} is still used: {', '.join(in_use)}. Change that first.", param="offering_id"
            )
        await storage.delete_offering(connection, project_id, offering_id)


def _check(metadata: Mapping[str, Any] | None) -> None:
    if metadata is not None and len(json.encode(metadata)) > LARGEST_METADATA:
        raise Invalid(f"The metadata has at most {LARGEST_METADATA:,} bytes as JSON.", param="metadata")
    if _has_nul(metadata):
        raise Invalid("A text in the metadata contains the NUL character (\\u0000).", param="metadata")


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


async def load_storefront(changes: Changes, project_id: str, place: AskingApp, app_user_id: str) -> Storefront:
    """The customer need not exist."""
    async with changes.database.acquire() as connection:
        choice = await load_offering_choice(connection, changes.catalogs, project_id, app_user_id)
    return storefront(choice.catalog, place, choice.override, choice.enrolled)


async def load_previews(changes: Changes, project_id: str) -> Previews:
    async with changes.database.acquire() as connection:
        known = await load_projects(connection, changes.catalogs, {project_id})
        apps = await APPS.page(connection, project_id)
    catalog = known[project_id].catalog
    return Previews(catalog, [(app, storefront(catalog, AskingApp(app.id, app.store))) for app in apps])


# An offering for one customer, whatever the current offering is. It has no event: nothing that was bought changes.


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
            if not await storage.override(connection, project_id, app_user_id, offering.id, changes.now()):
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
        await storage.clear_override(connection, project_id, app_user_id)


def _missing(app_user_id: str) -> NotFound:
    return NotFound(f"There is no customer {app_user_id!r} in this project.", param="app_user_id")
