"""The apps that are connected to their store, with decrypted credentials, cached for a moment."""

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import structlog
from msgspec import Struct, json

from latchkey.database.pool import Database, Executor
from latchkey.database.sealing import Sealer
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.refusal import Invalid, Refusal
from latchkey.engine.storage import store_handles
from latchkey.engine.storage.catalog.app_rows import App
from latchkey.engine.storage.store_handles import Healings
from latchkey.settings import Settings
from latchkey.stores.adapter import Adapter, ConnectedApp
from latchkey.stores.adapters import adapters
from latchkey.stores.errors import CredentialsRefused, StoreError
from latchkey.stores.stripe.notification import EVENT_TYPES
from latchkey.subjects.projects.usecases import load_app
from latchkey.subjects.purchase_intake.storage import connection_rows, journal_rows
from latchkey.subjects.purchase_intake.storage.connection_rows import CheckResult, StoreConnection

log = structlog.get_logger()

# How long a process may go on with credentials or a URL that were changed elsewhere.
_CACHED_MS = 2_000
_MOST_CACHED = 10_000


class Connections(Struct, eq=False):
    database: Database
    sealer: Sealer
    adapters: Mapping[str, Adapter]
    allowed_hosts: frozenset[str]
    now: Callable[[], Ms]
    _cache: dict[object, tuple[Ms, ConnectedApp]] = {}
    _parsed: dict[tuple[str, str], tuple[int, Any]] = {}

    async def by_token(self, token: str) -> ConnectedApp | None:
        """The app of a notification URL, also without credentials. None: there is no such URL."""
        hashed = hash_of(token)
        return await self._cached(hashed, lambda connection: connection_rows.by_token(connection, hashed, self.now()))

    async def of_app(self, project_id: str, app_id: str) -> ConnectedApp | None:
        """None: the app has no credentials, or does not exist."""
        key = project_id, app_id
        app = await self._cached(key, lambda connection: connection_rows.load(connection, *key))
        return app if app is not None and app.credentials is not None else None

    async def all_connected(self) -> list[tuple[ConnectedApp, StoreConnection]]:
        found = await connection_rows.connected(self.database)
        return [(app, row) for row in found if (app := self._app(row)).credentials is not None]

    async def close(self) -> None:
        for adapter in self.adapters.values():
            await adapter.close()

    def forget(self) -> None:
        """An app's connection was changed by this process."""
        self._cache.clear()

    def parse(self, store: str, given: Mapping[str, Any]) -> Any:
        return self.adapters[store].credential_form.parse(given, self.allowed_hosts)

    async def _cached(
        self, key: object, load: Callable[[Executor], Awaitable[StoreConnection | None]]
    ) -> ConnectedApp | None:
        at, app = self._cache.get(key, (0, None))
        if self.now() - at < _CACHED_MS:
            return app
        found = await load(self.database.hot)
        app = None if found is None else self._app(found)
        # Only what is connected is asked for often. Whoever has just saved credentials need not wait.
        if app is not None and app.credentials is not None:
            if len(self._cache) >= _MOST_CACHED:
                self._cache.clear()
            self._cache[key] = self.now(), app
        return app

    def unsealed(self, found: StoreConnection) -> dict[str, Any]:
        """The saved credentials, as they were given; empty if there are none."""
        if found.credentials is None:
            return {}
        place = place_of(found.project_id, found.app_id)
        return json.decode(self.sealer.unseal(found.credentials, place), type=dict[str, Any])

    def _app(self, row: StoreConnection) -> ConnectedApp:
        key = row.project_id, row.app_id
        version, credentials = self._parsed.get(key, (None, None))
        if version != row.version:
            credentials = self._credentials(row)
            self._parsed[key] = row.version, credentials
        proven = row.check_result == "ok"
        return ConnectedApp(*key, row.store, credentials=credentials, version=row.version, proven=proven)

    def _credentials(self, row: StoreConnection) -> Any:
        """None if there are none, or these settings refuse what others allowed: such an app is as good as not
        connected, and no other app suffers from it."""
        if row.credentials is None or row.store not in self.adapters:
            return None
        try:
            return self.parse(row.store, self.unsealed(row))
        except ValueError as error:
            log.error("saved credentials not usable", app_id=row.app_id, store=row.store, reason=str(error))
            return None


def hash_of(token: str) -> bytes:
    return sha256(token.encode()).digest()


def place_of(project_id: str, app_id: str) -> str:
    """What the encryption of an app's credentials is bound to."""
    return f"{project_id}/{app_id}/store credentials"


# After a rotation the old notification URL works on for this long: changing it at the store takes a while.
OVERLAP: Ms = 7 * DAY
PATH = "/incoming/"

# What a webhook endpoint of Stripe has to send.
STRIPE_EVENTS = EVENT_TYPES


class Connected(Struct, frozen=True):
    """What may be shown of an app's connection."""

    row: StoreConnection
    # The path of the notification URL; the host is wherever the service is reached.
    notification_path: str


async def load(connections: Connections, project_id: str, app_id: str) -> Connected | None:
    """None: apps of this store are not connected to one."""
    app = await load_app(connections.database, project_id, app_id)
    found = await load_some(connections, project_id, [app])
    connections.forget()
    return found.get(app_id)


async def load_some(connections: Connections, project_id: str, apps: Sequence[App]) -> dict[str, Connected]:
    """By app, those whose store can be connected. Makes a notification URL when it is asked for first."""
    wanted = [app.id for app in apps if app.store in connections.adapters]
    rows = await connection_rows.load_some(connections.database, project_id, wanted) if wanted else {}
    if new := [id for id in wanted if id not in rows]:
        async with connections.database.transaction() as connection:
            for id in new:
                await connection_rows.ensure(connection, project_id, id, *_new_token(connections, project_id, id))
            rows |= await connection_rows.load_some(connection, project_id, new)
        connections.forget()
    return {id: _connected(connections, row) for id, row in rows.items()}


async def load_shown(database: Database, project_id: str, app_ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """By app, what may be shown of its credentials."""
    return {id: row.shown or {} for id, row in (await connection_rows.load_some(database, project_id, app_ids)).items()}


async def save(connections: Connections, project_id: str, app_id: str, given: Mapping[str, Any]) -> Connected:
    """Checked with a real call to the store, and saved even if that could not be made: the result says so."""
    store = (await required(connections, project_id, app_id)).row.store
    parsed = check_form(connections, store, given)
    sealed = connections.sealer.seal(json.encode(given).decode(), place_of(project_id, app_id))
    shown = json.encode(connections.adapters[store].credential_form.describe(parsed))
    now = connections.now()
    async with connections.database.transaction() as connection:
        await connection_rows.save(connection, project_id, app_id, sealed, shown, now, "unknown", "Not checked yet.")
        # What could not be processed without credentials can be now.
        await journal_rows.reprocess(connection, project_id, now, now - 30 * DAY, "failed", app_id, None)
    version = (await required(connections, project_id, app_id)).row.version
    # Checked after saving: the store may send a trial notification at once, which then finds the credentials.
    await note_check(connections, ConnectedApp(project_id, app_id, store, credentials=parsed, version=version))
    return await required(connections, project_id, app_id)


def check_form(connections: Connections, store: str, given: Mapping[str, Any]) -> Any:
    """The credentials, if they have the right form. The store is not asked."""
    try:
        return connections.parse(store, given)
    except ValueError as error:
        param, _, _ = str(error).partition(" ")
        raise Invalid(str(error), param=param if param in given or "_" in param else None) from error


async def save_some(connections: Connections, project_id: str, app_id: str, given: Mapping[str, Any]) -> Connected:
    """As `save`; fields that are not given stay as they were saved."""
    row = (await required(connections, project_id, app_id)).row
    return await save(connections, project_id, app_id, {**connections.unsealed(row), **given})


async def check(connections: Connections, project_id: str, app_id: str) -> Connected:
    """Try the saved credentials with a real call. Apple sends a test notification for it."""
    await required(connections, project_id, app_id)
    app = await connections.of_app(project_id, app_id)
    if app is None:
        raise Refusal("This app has no credentials that could be checked.", param="app_id")
    await note_check(connections, app)
    return await required(connections, project_id, app_id)


async def note_check(connections: Connections, app: ConnectedApp) -> None:
    """Try the credentials of an app, and keep the result with them."""
    result: tuple[CheckResult, str] = "ok", ""
    try:
        await connections.adapters[app.store].check_credentials(app)
    except CredentialsRefused as error:
        result = "refused", error.message
    except StoreError as error:
        result = "unknown", f"Could not check: {error.message}"
    place = app.project_id, app.app_id
    await connection_rows.note_check(connections.database, *place, app.version, *result, connections.now(), True)
    connections.forget()


async def delete(connections: Connections, project_id: str, app_id: str) -> Connected:
    await required(connections, project_id, app_id)
    await connection_rows.save(connections.database, project_id, app_id, None, None, None, "unknown", "")
    return await required(connections, project_id, app_id)


async def rotate_url(connections: Connections, project_id: str, app_id: str) -> Connected:
    """A new notification URL. Every old one works on for a week after it was replaced, however often this is done."""
    await required(connections, project_id, app_id)
    sealed, hashed = _new_token(connections, project_id, app_id)
    async with connections.database.transaction() as connection:
        now = connections.now()
        await connection_rows.rotate(connection, project_id, app_id, sealed, hashed, now + OVERLAP, now)
    return await required(connections, project_id, app_id)


async def healings(connections: Connections, project_id: str, days: int = 30) -> dict[str, Healings]:
    """How often the safety net looked and found news, by app."""
    return await store_handles.healings(connections.database, project_id, connections.now() - days * DAY)


async def required(connections: Connections, project_id: str, app_id: str) -> Connected:
    found = await load(connections, project_id, app_id)
    if found is None:
        raise Refusal("Apps of this store need no credentials.", param="app_id")
    return found


def _connected(connections: Connections, row: StoreConnection) -> Connected:
    token = connections.sealer.unseal(row.url_token, _url_place(row.project_id, row.app_id))
    return Connected(row, PATH + token)


def _new_token(connections: Connections, project_id: str, app_id: str) -> tuple[bytes, bytes]:
    """Of a notification URL: encrypted, and its hash."""
    token = secrets.token_urlsafe(24)
    return connections.sealer.seal(token, _url_place(project_id, app_id)), hash_of(token)


def _url_place(project_id: str, app_id: str) -> str:
    return f"{project_id}/{app_id}/notification url"


def connect(database: Database, settings: Settings, now: Callable[[], Ms]) -> Connections:
    """The apps' connections to their stores."""
    extra_ca = settings.store_extra_ca.read_bytes() if settings.store_extra_ca is not None else None
    hosts = frozenset(settings.store_allow_hosts)
    return Connections(database, Sealer(settings.secret_key), adapters(extra_ca), hosts, now)
