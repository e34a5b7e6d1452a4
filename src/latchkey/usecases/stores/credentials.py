"""An app's connection to its store, as an operator sets it up: credentials and the notification URL."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import json

from latchkey.domain.instants import DAY, Ms
from latchkey.domain.refusal import Invalid, Refusal
from latchkey.storage.stores import connections as storage
from latchkey.storage.stores import handles, journal
from latchkey.storage.stores.connections import CheckResult, StoreConnection
from latchkey.storage.stores.handles import Healings
from latchkey.stores.adapter import ConnectedApp
from latchkey.stores.errors import CredentialsRefused, StoreError
from latchkey.stores.stripe.notification import EVENT_TYPES
from latchkey.usecases.access.projects import App, load_app
from latchkey.usecases.stores.connections import Connections, hash_of, place_of

# After a rotation the old notification URL works on for this long: changing it at the store takes a while.
OVERLAP: Ms = 7 * DAY
PATH = "/incoming/"

# What a webhook endpoint of Stripe has to send.
STRIPE_EVENTS = EVENT_TYPES


@dataclass(frozen=True, slots=True)
class Connected:
    """What may be shown of an app's connection."""

    row: StoreConnection
    # The path of the notification URL; the host is wherever the service is reached.
    notification_path: str


async def load(connections: Connections, project_id: str, app_id: str) -> Connected | None:
    """Makes the notification URL when it is asked for first. None: apps of this store are not connected to one."""
    app = await load_app(connections.database, project_id, app_id)
    if app.store not in connections.adapters:
        return None
    async with connections.database.transaction() as connection:
        row = await storage.load(connection, project_id, app_id)
        if row is None:
            token = secrets.token_urlsafe(24)
            sealed = connections.sealer.seal(token, _url_place(project_id, app_id))
            await storage.ensure(connection, project_id, app_id, sealed, hash_of(token))
            row = await storage.load(connection, project_id, app_id)
    connections.forget(project_id, app_id)
    return None if row is None else _connected(connections, row)


async def load_some(connections: Connections, project_id: str, apps: Sequence[App]) -> dict[str, Connected]:
    """By app, those whose store can be connected. Their notification URLs are made as in `load`."""
    wanted = [app.id for app in apps if app.store in connections.adapters]
    if not wanted:
        return {}
    async with connections.database.acquire() as connection:
        rows = await storage.load_some(connection, project_id, wanted)
    found = {id: _connected(connections, row) for id, row in rows.items()}
    for id in wanted:
        if id not in found and (made := await load(connections, project_id, id)) is not None:
            found[id] = made
    return found


async def save(connections: Connections, project_id: str, app_id: str, given: Mapping[str, Any]) -> Connected:
    """Checked with a real call to the store, and saved even if that could not be made: the result says so."""
    before = await required(connections, project_id, app_id)
    store = before.row.store
    adapter = connections.adapters[store]
    parsed = check_form(connections, store, given)
    sealed = connections.sealer.seal(json.encode(given).decode(), place_of(project_id, app_id))
    now = connections.now()
    async with connections.database.transaction() as connection:
        row = await storage.save(
            connection,
            project_id,
            app_id,
            credentials=sealed,
            shown=adapter.describe_credentials(parsed),
            check=("unknown", "Not checked yet."),
            now=now,
        )
        assert row is not None
        # What could not be processed without credentials can be now.
        await journal.reprocess_all(connection, project_id, now, now - 30 * DAY, "failed", app_id)
    connections.forget(project_id, app_id)
    # Checked after saving: the store may send a trial notification at once, which then finds the credentials.
    trial = ConnectedApp(project_id=project_id, app_id=app_id, store=store, credentials=parsed, version=row.version)
    await note_check(connections, trial)
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
    known = await connections.of_app(project_id, app_id)
    if known is None or known.connected is None:
        raise Refusal("This app has no credentials that could be checked.", param="app_id")
    await note_check(connections, known.connected)
    return await required(connections, project_id, app_id)


async def note_check(connections: Connections, app: ConnectedApp) -> None:
    """Try the credentials of an app, and keep the result with them."""
    result = await _check(connections, app)
    async with connections.database.transaction() as connection:
        await storage.note_check(
            connection, app.project_id, app.app_id, app.version, result, connections.now(), asked=True
        )
    connections.forget(app.project_id, app.app_id)


async def delete(connections: Connections, project_id: str, app_id: str) -> Connected:
    await required(connections, project_id, app_id)
    async with connections.database.transaction() as connection:
        row = await storage.delete(connection, project_id, app_id)
    connections.forget(project_id, app_id)
    assert row is not None
    return _connected(connections, row)


async def rotate_url(connections: Connections, project_id: str, app_id: str) -> Connected:
    """A new notification URL. Every old one works on for a week after it was replaced, however often this is done."""
    await required(connections, project_id, app_id)
    token = secrets.token_urlsafe(24)
    sealed = connections.sealer.seal(token, _url_place(project_id, app_id))
    async with connections.database.transaction() as connection:
        now = connections.now()
        row = await storage.rotate(connection, project_id, app_id, sealed, hash_of(token), now + OVERLAP, now)
    connections.forget(project_id, app_id)
    assert row is not None
    return _connected(connections, row)


async def healings(connections: Connections, project_id: str, days: int = 30) -> dict[str, Healings]:
    """How often the safety net looked and found news, by app."""
    async with connections.database.acquire() as connection:
        return await handles.healings(connection, project_id, connections.now() - days * DAY)


async def required(connections: Connections, project_id: str, app_id: str) -> Connected:
    found = await load(connections, project_id, app_id)
    if found is None:
        raise Refusal("Apps of this store need no credentials.", param="app_id")
    return found


async def _check(connections: Connections, app: ConnectedApp) -> tuple[CheckResult, str]:
    try:
        await connections.adapters[app.store].check_credentials(app)
    except CredentialsRefused as error:
        return "refused", error.message
    except StoreError as error:
        return "unknown", f"Could not check: {error.message}"
    return "ok", ""


def _connected(connections: Connections, row: StoreConnection) -> Connected:
    token = connections.sealer.unseal(row.url_token, _url_place(row.project_id, row.app_id))
    return Connected(row, PATH + token)


def _url_place(project_id: str, app_id: str) -> str:
    return f"{project_id}/{app_id}/notification url"
