"""The demo project of `latchkey up`: a small catalog, one app in the test store, two keys, and an app in each store
emulator."""

import contextlib
import secrets
from dataclasses import dataclass, field

from latchkey.database.pool import Database
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Conflict
from latchkey.domain.stores.store import APP_STORE, PLAY_STORE, STRIPE, TEST_STORE
from latchkey.engine.storage.catalog import catalogs
from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.accounts.usecases import team
from latchkey.subjects.accounts.usecases.accounts import create_account, find_account, has_password
from latchkey.subjects.api_keys.usecases import create_public_key, create_secret_key, find_key
from latchkey.subjects.demo import storage
from latchkey.subjects.imports.usecases import runs
from latchkey.subjects.projects.usecases import create_app, create_project

PROJECT_ID = "proj_demo"
APP_ID = "app_demo"
# By the names of the store emulators: id, name and store of the app that is sold there.
STORE_APPS = {
    "apple": ("app_demo_ios", "Demo app for iOS", APP_STORE),
    "google": ("app_demo_android", "Demo app for Android", PLAY_STORE),
    "stripe": ("app_demo_web", "Demo app for the web", STRIPE),
}
OWNER = "owner@latchkey.local"
# How the made-up history is known among the imports of a project.
HISTORY, HISTORY_RUN = "demo history", "imp_demo_history"


@dataclass(frozen=True, slots=True)
class Demo:
    project_id: str
    secret_key: str = field(repr=False)
    public_key: str = field(repr=False)
    # Created by this call.
    new: bool = False


async def ensure_demo(database: Database, now: Ms, *, secret_key: str | None, public_key: str | None) -> Demo:
    """The demo project, created on the first call. Keys that still work are kept, others are replaced."""
    new = False
    with contextlib.suppress(Conflict):
        await create_project(database, "Demo", now, project_id=PROJECT_ID)
        new = True
    with contextlib.suppress(Conflict):
        await create_app(database, PROJECT_ID, "Demo app", TEST_STORE, now, app_id=APP_ID)
    async with database.acquire() as connection:
        bare = not await storage.has_catalog(connection, PROJECT_ID)
    # Only into an empty catalog: what was deleted from the demo's catalog stays deleted.
    if bare:
        await add_catalog(database, PROJECT_ID, now)
    if not await _is_good(database, secret_key, "secret"):
        secret_key = (await create_secret_key(database, PROJECT_ID, "latchkey up", now)).plaintext
    if not await _is_good(database, public_key, "public"):
        public_key = (await create_public_key(database, PROJECT_ID, APP_ID, "latchkey up", now)).plaintext
    assert secret_key is not None
    assert public_key is not None
    return Demo(PROJECT_ID, secret_key, public_key, new)


async def want_history(database: Database, project_id: str, now: Ms) -> None:
    """Notes that the project is to have a made-up history. It has at most one, however often this is called."""
    async with database.transaction() as connection:
        if await runs.find_run(connection, project_id, HISTORY) is None:
            await runs.begin_run(connection, project_id, HISTORY_RUN, HISTORY, now)


async def has_history(database: Database, project_id: str) -> bool:
    """Whether a project has a made-up history, or is getting one."""
    return await runs.find_run(database, project_id, HISTORY) is not None


async def ensure_store_app(database: Database, now: Ms, name: str, public_key: str | None) -> str:
    """The demo's app in a store, created on the first call. Returns its public key: the given one if it still works."""
    app_id, title, store = STORE_APPS[name]
    with contextlib.suppress(Conflict):
        await create_app(database, PROJECT_ID, title, store, now, app_id=app_id)
        if store == PLAY_STORE:
            # Only with a new app: what was deleted from the demo's catalog stays deleted.
            async with database.transaction() as connection:
                await storage.add_base_plans(connection, PROJECT_ID, app_id, now)
                await catalogs.announce(connection, PROJECT_ID)
    if public_key is None or not await _is_good(database, public_key, "public"):
        public_key = (await create_public_key(database, PROJECT_ID, app_id, "latchkey up", now)).plaintext
    return public_key


async def add_catalog(database: Database, project_id: str, now: Ms) -> None:
    """Adds the demo's entitlements, products and currency to any project. What is there already stays as it is."""
    async with database.transaction() as connection:
        await storage.add_catalog(connection, project_id, now)
        await catalogs.announce(connection, project_id)


async def ensure_owner(database: Database, now: Ms, password: str | None) -> str | None:
    """Creates the demo's first account on the first call. Returns its password, or None if it was changed since."""
    account = await find_account(database, OWNER)
    if account is None:
        password = secrets.token_urlsafe(12)
        account = await create_account(database, OWNER, now, name="Owner", password=password)
        # Whoever runs `latchkey up` runs the whole deployment.
        await team.set_operator(database, account, now)
    elif password is None or not await has_password(database, OWNER, password):
        password = None
    if not await team.places(database, account.id):
        await team.add_member(database, PROJECT_ID, OWNER, Role.OWNER, now)
    return password


async def _is_good(database: Database, plaintext: str | None, kind: str) -> bool:
    if not plaintext:
        return False
    key = await find_key(database, plaintext)
    return key is not None and key.kind == kind and key.project_id == PROJECT_ID
