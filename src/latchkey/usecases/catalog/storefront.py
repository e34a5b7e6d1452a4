"""What an app shows to one of its users. The rules are in `domain/storefront.py`."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.catalog import Catalog
from latchkey.domain.storefront import AskingApp, Storefront, storefront
from latchkey.storage.access import projects
from latchkey.storage.access.projects import App
from latchkey.storage.catalog import choices
from latchkey.usecases.engine.changes import Changes, load_projects


@dataclass(frozen=True, slots=True)
class Previews:
    """What each app of a project shows to a customer without an offering of its own."""

    catalog: Catalog
    apps: list[tuple[App, Storefront]]


async def load_storefront(changes: Changes, project_id: str, place: AskingApp, app_user_id: str) -> Storefront:
    """The customer need not exist."""
    async with changes.database.acquire() as connection:
        choice = await choices.load(connection, changes.catalogs, project_id, app_user_id)
    return storefront(choice.catalog, place, choice.override, choice.enrolled)


async def load_previews(changes: Changes, project_id: str) -> Previews:
    async with changes.database.acquire() as connection:
        known = await load_projects(connection, changes.catalogs, {project_id})
        apps = await projects.all_apps(connection, project_id)
    catalog = known[project_id].catalog
    return Previews(catalog, [(app, storefront(catalog, AskingApp(app.id, app.store))) for app in apps])
