"""Projects and their apps."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import json

from latchkey.database.pool import Connection, Record
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


_CREATE = query("insert_project")
_BEGIN_FEED = query("insert_feed")
_LOAD = query("load_project")
_LIST = query("list_projects")
_UPDATE = query("update_project")
_CREATE_APP = query("create_app")
_PAGE_OF_APPS = query("list_apps")
_UPDATE_APP = query("update_app")
_DELETE_APP = query("delete_app")


async def create(connection: Connection, project_id: str, name: str, now: Ms) -> Project | None:
    """A project and the head of its event feed. None: the id is taken."""
    async with connection.transaction():
        row = await connection.fetchrow(_CREATE, project_id, name, now)
        if row is not None:
            await connection.execute(_BEGIN_FEED, project_id)
    return _found(row)


async def load(connection: Connection, project_id: str) -> Project | None:
    return _found(await connection.fetchrow(_LOAD, project_id))


async def all_of_them(connection: Connection) -> list[Project]:
    """Oldest first."""
    return [_project(row) for row in await connection.fetch(_LIST)]


async def update(
    connection: Connection,
    project_id: str,
    name: str | None,
    restore_behavior: RestoreBehavior | None,
    test_store: TestStore | None,
) -> Project | None:
    """None as a new value keeps the old one. Returns None if there is no such project."""
    return _found(await connection.fetchrow(_UPDATE, project_id, name, restore_behavior, test_store))


async def create_app(
    connection: Connection, project_id: str, app_id: str, name: str, store: str, now: Ms, details: Mapping[str, Any]
) -> App | None:
    """None: the id is taken."""
    encoded = json.encode(dict(details))
    return _found_app(await connection.fetchrow(_CREATE_APP, project_id, app_id, name, store, now, encoded))


async def update_app(
    connection: Connection, project_id: str, app_id: str, name: str | None, details: Mapping[str, Any] | None
) -> App | None:
    """None as a new value keeps the old one. Returns None if there is no such app."""
    encoded = None if details is None else json.encode(dict(details))
    return _found_app(await connection.fetchrow(_UPDATE_APP, project_id, app_id, name, encoded))


async def load_app(connection: Connection, project_id: str, app_id: str) -> App | None:
    return _found_app(await connection.fetchrow(_PAGE_OF_APPS, project_id, None, 1, app_id))


async def page_of_apps(
    connection: Connection, project_id: str, after: str | None = None, limit: int | None = None
) -> list[App]:
    """Oldest first; `after` is the id of the last app of the page before."""
    return [_app(row) for row in await connection.fetch(_PAGE_OF_APPS, project_id, after, limit, None)]


async def delete_app(connection: Connection, project_id: str, app_id: str) -> bool:
    """The app and its keys. False: there is no such app."""
    return await connection.execute(_DELETE_APP, project_id, app_id) != "DELETE 0"


def _found(row: Record | None) -> Project | None:
    return None if row is None else _project(row)


def _project(row: Record) -> Project:
    return Project(
        id=row["id"],
        name=row["name"],
        restore_behavior=row["restore_behavior"],
        created_at=row["created_at"],
        test_store=row["test_store"],
    )


def _found_app(row: Record | None) -> App | None:
    return None if row is None else _app(row)


def _app(row: Record) -> App:
    return App(
        project_id=row["project_id"],
        id=row["id"],
        name=row["name"],
        store=row["store"],
        created_at=row["created_at"],
        details=json.decode(row["details"]),
    )
