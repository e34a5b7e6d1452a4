"""The apps that are connected to their store, with decrypted credentials, cached for a moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import structlog
from msgspec import json

from latchkey.delivery.sealing import Sealer
from latchkey.domain.instants import Ms
from latchkey.storage.database import Database
from latchkey.storage.stores import connections
from latchkey.storage.stores.connections import StoreConnection
from latchkey.stores.adapter import Adapter, ConnectedApp
from latchkey.stores.adapters import adapters as adapters

log = structlog.get_logger()

# How long a process may go on with credentials or a URL that were changed elsewhere.
_CACHED_MS = 2_000
_MOST_CACHED = 10_000


@dataclass(frozen=True, slots=True)
class Known:
    """An app of a store that can be connected."""

    project_id: str
    app_id: str
    store: str
    # None while it has no credentials.
    connected: ConnectedApp | None
    # The store accepted the credentials when they were last tried. Otherwise a receipt that does not fit them may still
    # be real: the mistake can be ours.
    proven: bool = False


class Connections:
    def __init__(
        self,
        database: Database,
        sealer: Sealer,
        adapters: Mapping[str, Adapter],
        allowed_hosts: frozenset[str],
        now: Callable[[], Ms],
    ) -> None:
        self.database = database
        self.sealer = sealer
        self.adapters = adapters
        self.allowed_hosts = allowed_hosts
        self.now = now
        self._cache: dict[object, tuple[Ms, Known | None]] = {}
        self._parsed: dict[tuple[str, str], tuple[int, ConnectedApp | None]] = {}

    async def by_token(self, token: str) -> Known | None:
        """The app of a notification URL. None: there is no such URL."""
        hashed = hash_of(token)
        known, fresh = self._cached(hashed)
        if fresh:
            return known
        async with self.database.at_hand() as connection:
            found = await connections.by_token(connection, hashed, self.now())
        return self._remember(hashed, found)

    async def of_app(self, project_id: str, app_id: str) -> Known | None:
        """None: the app was never connected, or does not exist."""
        key = project_id, app_id
        known, fresh = self._cached(key)
        if fresh:
            return known
        async with self.database.at_hand() as connection:
            found = await connections.load(connection, project_id, app_id)
        return self._remember(key, found)

    async def all_connected(self) -> list[tuple[ConnectedApp, StoreConnection]]:
        async with self.database.acquire() as connection:
            found = await connections.connected(connection)
        known = [(self._known(one).connected, one) for one in found if one.store in self.adapters]
        return [(app, one) for app, one in known if app is not None]

    async def close(self) -> None:
        for adapter in self.adapters.values():
            await adapter.close()

    def forget(self, project_id: str, app_id: str) -> None:
        """The app's connection was changed by this process."""
        self._cache = {
            key: (at, known)
            for key, (at, known) in self._cache.items()
            if known is not None and (known.project_id, known.app_id) != (project_id, app_id)
        }

    def parse(self, store: str, given: Mapping[str, Any]) -> Any:
        return self.adapters[store].parse_credentials(given, self.allowed_hosts)

    def _cached(self, key: object) -> tuple[Known | None, bool]:
        at, known = self._cache.get(key, (0, None))
        return known, self.now() - at < _CACHED_MS

    def _remember(self, key: object, found: StoreConnection | None) -> Known | None:
        known = None if found is None else self._known(found)
        # Only what is connected is asked for often. Whoever has just saved credentials need not wait.
        if known is not None and known.connected is not None:
            if len(self._cache) >= _MOST_CACHED:
                self._cache.clear()
            self._cache[key] = self.now(), known
        return known

    def unsealed(self, found: StoreConnection) -> dict[str, Any]:
        """The saved credentials, as they were given; empty if there are none."""
        if found.credentials is None:
            return {}
        given: dict[str, Any] = json.decode(
            self.sealer.unseal(found.credentials, place_of(found.project_id, found.app_id))
        )
        return given

    def _known(self, found: StoreConnection) -> Known:
        return Known(
            found.project_id, found.app_id, found.store, self._connected(found), proven=found.check_result == "ok"
        )

    def _connected(self, found: StoreConnection) -> ConnectedApp | None:
        if found.credentials is None or found.store not in self.adapters:
            return None
        key = found.project_id, found.app_id
        version, app = self._parsed.get(key, (None, None))
        if version != found.version:
            app = self._made(found, self.unsealed(found))
            self._parsed[key] = found.version, app
        return app

    def _made(self, found: StoreConnection, given: Mapping[str, Any]) -> ConnectedApp | None:
        """None if these settings refuse what others allowed: such an app is as good as not connected, and no other app
        suffers from it."""
        try:
            credentials = self.parse(found.store, given)
        except ValueError as error:
            log.error("saved credentials not usable", app_id=found.app_id, store=found.store, reason=str(error))
            return None
        return ConnectedApp(
            project_id=found.project_id,
            app_id=found.app_id,
            store=found.store,
            credentials=credentials,
            version=found.version,
        )


def hash_of(token: str) -> bytes:
    return sha256(token.encode()).digest()


def place_of(project_id: str, app_id: str) -> str:
    """What the encryption of an app's credentials is bound to."""
    return f"{project_id}/{app_id}/store credentials"
