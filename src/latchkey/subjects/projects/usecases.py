"""Projects and their apps. A project is one app family with its own customers, catalog and keys. An app is the
project's app in one store."""

import secrets
from collections.abc import Mapping
from typing import Any, get_args

from msgspec.structs import replace

from latchkey.database.pool import Database
from latchkey.domain.customers.identity import RestoreBehavior
from latchkey.domain.instants import Ms
from latchkey.domain.naming import checked_name
from latchkey.domain.refusal import Conflict, Invalid, found
from latchkey.domain.stores.store import STORES
from latchkey.domain.stores.store import AppStore as Store
from latchkey.domain.time_zones import checked_time_zone
from latchkey.engine.storage.catalog import app_rows as storage
from latchkey.engine.storage.catalog.app_rows import APPS, App, Project, TestStore
from latchkey.subjects.projects.rules import checked_deep_link

# The stores an app can be in, the prefixes of their public keys, and their names for people.
PUBLIC_PREFIXES: dict[Store, str] = {store: STORES[store].key_prefix or "" for store in get_args(Store)}
SANDBOX_PREFIXES: dict[Store, str] = {
    store: prefix for store in get_args(Store) if (prefix := STORES[store].sandbox_key_prefix) is not None
}
TITLES: dict[str, str] = {store: STORES[store].title for store in get_args(Store)}

load_app = APPS.get
all_apps = APPS.page
list_projects = storage.all_of_them
list_apps = APPS.load_page


async def create_project(database: Database, name: str, now: Ms, *, project_id: str | None = None) -> Project:
    # The vendor's clients take project ids of up to 20 characters.
    wanted = project_id or f"proj_{secrets.token_hex(7)}"
    name = checked_name(name)
    async with database.transaction() as connection:
        project = await storage.create(connection, wanted, name, now)
    if project is None:
        raise Conflict(f"There is already a project {wanted}.", param="id")
    return project


async def load_project(database: Database, project_id: str) -> Project:
    return found(await storage.load(database, project_id), f"There is no project {project_id}.", "project_id")


async def update_project(
    database: Database,
    project_id: str,
    *,
    name: str | None = None,
    restore_behavior: RestoreBehavior | None = None,
    test_store: TestStore | None = None,
    time_zone: str | None = None,
) -> Project:
    """Fields that are not given stay as they are."""
    if name is not None:
        name = checked_name(name)
    if time_zone is not None:
        time_zone = checked_time_zone(time_zone)
    async with database.transaction() as connection:
        project = await storage.update(connection, project_id, name, restore_behavior, test_store, time_zone)
    return found(project, f"There is no project {project_id}.", "project_id")


async def create_app(
    database: Database,
    project_id: str,
    name: str,
    store: str,
    now: Ms,
    *,
    app_id: str | None = None,
    details: Mapping[str, Any] | None = None,
) -> App:
    if store not in PUBLIC_PREFIXES:
        raise Invalid(f"An app's store is one of {', '.join(PUBLIC_PREFIXES)}.", param="store")
    await load_project(database, project_id)
    wanted = app_id or f"app_{secrets.token_hex(8)}"
    name = checked_name(name)
    app = App(project_id, wanted, name, store, now, _checked(details or {}))
    async with database.transaction() as connection:
        APPS.require_new(await storage.create_app(connection, app), wanted)
    return app


async def update_app(
    database: Database, project_id: str, app_id: str, *, name: str | None, details: Mapping[str, Any]
) -> App:
    """Changes the name, if one is given, and these details; null removes one."""
    if name is not None:
        name = checked_name(name)
    async with database.transaction() as connection:
        before = await APPS.get(connection, project_id, app_id)
        kept = {key: value for key, value in {**before.details, **_checked(details)}.items() if value is not None}
        changed = replace(before, name=name if name is not None else before.name, details=kept)
        await storage.update_app(connection, changed)
    return changed


def _checked(details: Mapping[str, Any]) -> Mapping[str, Any]:
    if details.get("deep_link") is not None:
        checked_deep_link(details["deep_link"])
    return details


async def delete_app(database: Database, project_id: str, app_id: str) -> None:
    """Deletes the app and its keys, so that installed copies are refused; receipts of a real store get 503, so that
    phones keep the purchases. What was bought in the app stays."""
    async with database.transaction() as connection:
        if not await storage.delete_app(connection, project_id, app_id):
            raise APPS.missing(app_id)
