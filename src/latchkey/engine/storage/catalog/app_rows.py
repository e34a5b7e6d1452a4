"""Projects and their apps."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, json

from latchkey.database.pool import Connection
from latchkey.database.rows import Listing, changes_rows, fetch_one, fetches_all, fetches_one
from latchkey.database.sql import query
from latchkey.domain.instants import Ms
from latchkey.domain.stores.store import AppStore

TestStore = Literal["open", "closed"]


class Project(Struct, frozen=True):
    id: str
    name: str
    restore_behavior: Literal["transfer", "keep", "transfer_if_no_active_subscriptions"]
    created_at: Ms
    test_store: TestStore
    # An IANA name. Pages and reports use it; data and APIs are in UTC.
    time_zone: str


class App(Struct, frozen=True):
    project_id: str
    id: str
    name: str
    store: AppStore
    created_at: Ms
    # What the store calls it, and the like, by field. No secrets.
    details: Mapping[str, Any]

    @property
    def title(self) -> str:
        """What buyers know it by."""
        return str(self.details.get("app_name") or self.name)


APPS = Listing("app", query("list_apps"), App, as_json=("details",), by_age=True, written=str)


async def create(connection: Connection, project_id: str, name: str, now: Ms) -> Project | None:
    """A project and the head of its event feed. None: the id is taken."""
    async with connection.transaction():
        project = await fetch_one(connection, Project, query("insert_project"), project_id, name, now)
        if project is not None:
            await connection.execute(query("insert_feed"), project_id)
    return project


load = fetches_one(Project, query("load_project"))
# Oldest first.
all_of_them = fetches_all(Project, query("list_projects"))
# Its name, restore behavior, test store and time zone: None keeps the old value. None: there is no such project.
update = fetches_one(Project, query("update_project"))
# The app and its keys. False: there is no such app.
delete_app = changes_rows(query("delete_app"))
_insert_app = changes_rows(query("create_app"))


async def create_app(connection: Connection, app: App) -> bool:
    """False: the id is taken."""
    others = app.name, app.store, app.created_at, json.encode(app.details)
    return await _insert_app(connection, app.project_id, app.id, *others)


async def update_app(connection: Connection, app: App) -> None:
    """Its name and its details."""
    await connection.execute(query("update_app"), app.project_id, app.id, app.name, json.encode(app.details))
