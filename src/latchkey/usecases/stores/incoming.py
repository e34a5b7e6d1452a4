"""Notifications from stores: checked, written to the journal, and only then answered. Processing follows."""

from __future__ import annotations

from collections.abc import Mapping

from latchkey.domain.instants import Ms
from latchkey.domain.refusal import NotFound
from latchkey.storage.database import Database
from latchkey.storage.stores import connections as storage
from latchkey.storage.stores import journal
from latchkey.storage.stores.journal import NewEntry, Source
from latchkey.stores.adapter import ConnectedApp, Incoming, Notification
from latchkey.stores.errors import CredentialsRefused as CredentialsRefused
from latchkey.stores.errors import Malformed as Malformed
from latchkey.stores.errors import Misdirected as Misdirected
from latchkey.stores.errors import NotAuthentic as NotAuthentic
from latchkey.stores.errors import StoreDown as StoreDown
from latchkey.usecases.engine.batch import Batch
from latchkey.usecases.stores.connections import Connections


class NotConnected(Exception):
    """The app has no credentials, so nothing can be checked. The store should try again later."""


class Inbox:
    """Takes notifications in. Those that arrive at the same time share one statement."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._batch: Batch[NewEntry, int | None] = Batch(self._file, largest=128)

    async def receive(self, token: str, body: bytes, headers: Mapping[str, str]) -> bool:
        """False: it was in the journal already. Raises a StoreError where it must not be believed."""
        known = await self._connections.by_token(token)
        if known is None:
            raise NotFound("There is no such notification URL. Copy it again from the app's settings.")
        if known.connected is None:
            raise NotConnected
        app, now = known.connected, self._connections.now()
        adapter = self._connections.adapters[app.store]
        notification = await adapter.verify(app, Incoming(body=body, headers=headers, received_at=now))
        return await self.file(app, notification, "notification", now) is not None

    async def file(self, app: ConnectedApp, notification: Notification, source: Source, now: Ms) -> int | None:
        """Its id in the journal; None where it was there already."""
        return await self._batch.ask(entry_of(app, notification, source, now))

    async def drain(self) -> None:
        await self._batch.drain()

    async def _file(self, entries: list[NewEntry]) -> list[int | None]:
        return await file_entries(self._connections.database, entries)


async def file_entries(database: Database, entries: list[NewEntry]) -> list[int | None]:
    """The id of each that is new."""
    async with database.transaction() as connection:
        filed = await journal.file(connection, entries)
        for app_id, project_id in {(one.app_id, one.project_id) for one in entries if one.source == "notification"}:
            await storage.note_notified(connection, project_id, app_id, max(one.received_at for one in entries))
    return [filed.pop((one.project_id, one.app_id, one.external_id), None) for one in entries]


def entry_of(app: ConnectedApp, notification: Notification, source: Source, now: Ms) -> NewEntry:
    return NewEntry(
        project_id=app.project_id,
        app_id=app.app_id,
        store=app.store,
        source=source,
        external_id=notification.external_id,
        kind=notification.kind,
        environment=notification.environment,
        subject=notification.subject,
        occurred_at=notification.occurred_at,
        received_at=now,
        checked=dict(notification.checked),
        payload=notification.payload,
        next_at=now,
    )
