"""The demo project that `latchkey up` makes: a small catalog, one app in the test store, and two keys."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field

from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Conflict
from latchkey.storage.database import Database
from latchkey.storage.sql import query
from latchkey.usecases.keys import create_public_key, create_secret_key, find_key
from latchkey.usecases.projects import create_app, create_project

CATALOG = tuple(query(name) for name in ("add_demo_entitlements", "add_demo_currencies", "add_demo_products"))
MAPPING = query("add_demo_mapping")
HAS_CATALOG = query("has_catalog")
ANNOUNCE_CATALOG = query("announce_catalog")

PROJECT_ID = "proj_demo"
APP_ID = "app_demo"


@dataclass(frozen=True, slots=True)
class Demo:
    project_id: str
    secret_key: str = field(repr=False)
    public_key: str = field(repr=False)


async def ensure_demo(database: Database, now: Ms, *, secret_key: str | None, public_key: str | None) -> Demo:
    """The demo project, made on the first call. Remembered keys that are still good are kept, others made anew."""
    with contextlib.suppress(Conflict):
        await create_project(database, "Demo", now, project_id=PROJECT_ID)
    with contextlib.suppress(Conflict):
        await create_app(database, PROJECT_ID, "Demo app", "test_store", now, app_id=APP_ID)
    async with database.acquire() as connection:
        bare = not await connection.fetchval(HAS_CATALOG, PROJECT_ID)
    # Only into an empty one: what somebody later takes out of the demo's catalog stays out.
    if bare:
        await add_catalog(database, PROJECT_ID, now)
    if not await _is_good(database, secret_key, "secret"):
        secret_key = (await create_secret_key(database, PROJECT_ID, "latchkey up", now)).plaintext
    if not await _is_good(database, public_key, "public"):
        public_key = (await create_public_key(database, PROJECT_ID, APP_ID, "latchkey up", now)).plaintext
    assert secret_key is not None
    assert public_key is not None
    return Demo(PROJECT_ID, secret_key, public_key)


async def add_catalog(database: Database, project_id: str, now: Ms) -> None:
    """The demo's entitlements, products and currency, in any project; what is there already stays as it is."""
    async with database.transaction() as connection:
        for statement in CATALOG:
            await connection.execute(statement, project_id, now)
        await connection.execute(MAPPING, project_id)
        await connection.execute(ANNOUNCE_CATALOG, project_id)


async def _is_good(database: Database, plaintext: str | None, kind: str) -> bool:
    if not plaintext:
        return False
    key = await find_key(database, plaintext)
    return key is not None and key.kind == kind and key.project_id == PROJECT_ID
