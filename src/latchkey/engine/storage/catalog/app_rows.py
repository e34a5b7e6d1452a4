"""Projects and their apps."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import json

from latchkey.database.pool import Connection, Executor, Record
from latchkey.database.rows import Listing, fetch_all, fetch_one, item_of
from latchkey.database.sql import query
from latchkey.domain.customers.identity import RestoreBehavior
from latchkey.domain.instants import Ms
from latchkey.domain.stores.store import AppStore

TestStore = Literal["open", "closed"]


@dataclass(frozen=True, slots=True)
class Project:
    id: str
    name: str
    restore_behavior: Literal["transfer", "keep", "transfer_if_no_active_subscriptions"]
    created_at: Ms
    test_store: TestStore


@dataclass(frozen=True, slots=True)
class App:
    project_id: str
    id: str
    name: str
    store: AppStore
    created_at: Ms
    # What the store calls it, and the like, by field. No secrets.
    details: Mapping[str, Any]


def _app(row: Record) -> App:
    return item_of(App, row, details=json.decode(row["details"]))


APPS = Listing("app", query("list_apps"), _app, by_age=True, written=str)


async def create(connection: Connection, project_id: str, name: str, now: Ms) -> Project | None:
    """A project and the head of its event feed. None: the id is taken."""
    async with connection.transaction():
        project = await fetch_one(connection, Project, query("insert_project"), project_id, name, now)
        if project is not None:
            await connection.execute(query("insert_feed"), project_id)
    return project


async def load(connection: Executor, project_id: str) -> Project | None:
    return await fetch_one(connection, Project, query("load_project"), project_id)


async def all_of_them(connection: Executor) -> list[Project]:
    """Oldest first."""
    return await fetch_all(connection, Project, query("list_projects"))


async def update(
    connection: Connection,
    project_id: str,
    name: str | None,
    restore_behavior: RestoreBehavior | None,
    test_store: TestStore | None,
) -> Project | None:
    """None as a new value keeps the old one. Returns None if there is no such project."""
    return await fetch_one(connection, Project, query("update_project"), project_id, name, restore_behavior, test_store)


async def create_app(connection: Connection, app: App) -> bool:
    """False: the id is taken."""
    details = json.encode(app.details)
    made = await connection.execute(
        query("create_app"), app.project_id, app.id, app.name, app.store, app.created_at, details
    )
    return made != "INSERT 0 0"


async def update_app(connection: Connection, app: App) -> None:
    """Its name and its details."""
    await connection.execute(query("update_app"), app.project_id, app.id, app.name, json.encode(app.details))


async def delete_app(connection: Connection, project_id: str, app_id: str) -> bool:
    """The app and its keys. False: there is no such app."""
    return await connection.execute(query("delete_app"), project_id, app_id) != "DELETE 0"
