"""Projects and their apps. A project is one app family with its own customers, catalog and keys; an app is one of its
presences in one store."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Literal

from latchkey.domain.identity import RestoreBehavior
from latchkey.domain.instants import Ms
from latchkey.domain.naming import checked_name
from latchkey.domain.refusal import Conflict, Invalid, NotFound
from latchkey.storage.database import Database, Record
from latchkey.storage.sql import query

CREATE_PROJECT = query("create_project")
LOAD_PROJECT = query("load_project")
LIST_PROJECTS = query("list_projects")
UPDATE_PROJECT = query("update_project")
CREATE_APP = query("create_app")
LOAD_APP = query("load_app")
LIST_APPS = query("list_apps")
DELETE_APP = query("delete_app")

TestStore = Literal["open", "closed"]

Store = Literal["app_store", "play_store", "stripe", "rc_billing", "test_store"]

# The stores an app can be in, and how its public keys begin.
PUBLIC_PREFIXES: dict[Store, str] = {
    "app_store": "appl_",
    "play_store": "goog_",
    "stripe": "strp_",
    "rc_billing": "rcb_",
    "test_store": "test_",
}


@dataclass(frozen=True, slots=True)
class Project:
    id: str
    name: str
    restore_behavior: Literal["transfer", "keep"]
    created_at: Ms
    test_store: TestStore


@dataclass(frozen=True, slots=True)
class App:
    project_id: str
    id: str
    name: str
    store: Store
    created_at: Ms


async def create_project(database: Database, name: str, now: Ms, *, project_id: str | None = None) -> Project:
    wanted = project_id or f"proj_{secrets.token_hex(8)}"
    async with database.transaction() as connection:
        row = await connection.fetchrow(CREATE_PROJECT, wanted, checked_name(name), now)
    if row is None:
        raise Conflict(f"There is already a project {wanted}.", param="id")
    return Project(*row)


async def load_project(database: Database, project_id: str) -> Project:
    async with database.acquire() as connection:
        row = await connection.fetchrow(LOAD_PROJECT, project_id)
    if row is None:
        raise NotFound(f"There is no project {project_id}.", param="project_id")
    return Project(*row)


async def list_projects(database: Database) -> list[Project]:
    async with database.acquire() as connection:
        return [Project(*row) for row in await connection.fetch(LIST_PROJECTS)]


async def update_project(
    database: Database,
    project_id: str,
    *,
    name: str | None = None,
    restore_behavior: RestoreBehavior | None = None,
    test_store: TestStore | None = None,
) -> Project:
    """Where something is not given, it stays."""
    if name is not None:
        name = checked_name(name)
    async with database.transaction() as connection:
        row = await connection.fetchrow(UPDATE_PROJECT, project_id, name, restore_behavior, test_store)
    if row is None:
        raise NotFound(f"There is no project {project_id}.", param="project_id")
    return Project(*row)


async def create_app(
    database: Database, project_id: str, name: str, store: str, now: Ms, *, app_id: str | None = None
) -> App:
    if store not in PUBLIC_PREFIXES:
        raise Invalid(f"An app's store is one of {', '.join(PUBLIC_PREFIXES)}.", param="store")
    await load_project(database, project_id)
    wanted = app_id or f"app_{secrets.token_hex(8)}"
    async with database.transaction() as connection:
        row = await connection.fetchrow(CREATE_APP, project_id, wanted, checked_name(name), store, now)
    if row is None:
        raise Conflict(f"There is already an app {wanted} in this project.", param="id")
    return _app(row)


async def load_app(database: Database, project_id: str, app_id: str) -> App:
    async with database.acquire() as connection:
        row = await connection.fetchrow(LOAD_APP, project_id, app_id)
    if row is None:
        raise NotFound(f"There is no app {app_id} in this project.", param="app_id")
    return _app(row)


async def list_apps(database: Database, project_id: str, *, after: str | None = None, limit: int = 100) -> list[App]:
    async with database.acquire() as connection:
        if after is not None and await connection.fetchrow(LOAD_APP, project_id, after) is None:
            raise NotFound(f"There is no app {after!r} to start after.", param="starting_after")
        return [_app(row) for row in await connection.fetch(LIST_APPS, project_id, after, limit)]


async def delete_app(database: Database, project_id: str, app_id: str) -> None:
    """The app and its keys: what is installed of it is locked out. What was bought in it stays."""
    async with database.transaction() as connection:
        if await connection.execute(DELETE_APP, project_id, app_id) == "DELETE 0":
            raise NotFound(f"There is no app {app_id} in this project.", param="app_id")


def _app(row: Record) -> App:
    return App(*row)
