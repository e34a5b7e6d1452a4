"""Whether a user could restore the purchase that a phone shows. Nothing is changed and nothing is kept."""

from __future__ import annotations

from latchkey.domain.customers import identity
from latchkey.domain.customers.identity import RestoreBehavior
from latchkey.domain.stores.store import TEST_STORE
from latchkey.storage.access import projects
from latchkey.storage.customers import records as customers
from latchkey.storage.customers.records import PurchaseKey
from latchkey.stores import errors
from latchkey.stores.adapter import AppReceipt
from latchkey.usecases.customers.receipts import TEST_PREFIX, CannotCheck, InvalidReceipt
from latchkey.usecases.engine.reading import Reader
from latchkey.usecases.rendering.view import look_at
from latchkey.usecases.stores.connections import Connections

NOT_NOW = "The store cannot be asked now."


async def may_restore(
    connections: Connections,
    reader: Reader,
    project_id: str,
    app_id: str | None,
    store: str | None,
    app_user_id: str,
    token: str,
) -> bool:
    """The receipt is verified as if it were posted. True if all its purchases are free, or may go to this user."""
    keys = await _purchases(connections, project_id, app_id, store, token)
    return all([await _may_have(connections, reader, project_id, app_user_id, key) for key in keys])


async def _purchases(
    connections: Connections, project_id: str, app_id: str | None, store: str | None, token: str
) -> list[PurchaseKey]:
    is_test = token.startswith(TEST_PREFIX)
    if app_id is None:
        raise InvalidReceipt("Send a receipt with the public key of its app.", param="fetch_token")
    if store == TEST_STORE and is_test:
        return [(TEST_STORE, token)]
    if store == TEST_STORE or is_test:
        raise InvalidReceipt("The fetch_token is not a token of the test store and this app.", param="fetch_token")
    known = await connections.of_app(project_id, app_id)
    if known is None or known.connected is None:
        raise CannotCheck("This app is not connected to its store.")
    app = known.connected
    try:
        reading = await connections.adapters[app.store].read_receipt(app, AppReceipt(token=token))
    except errors.InvalidReceipt as error:
        raise InvalidReceipt(error.message, param="fetch_token") from error
    except errors.StoreError as error:
        raise CannotCheck(NOT_NOW) from error
    return [(one.snapshot.store, one.snapshot.id) for one in reading.seen]


async def _may_have(
    connections: Connections, reader: Reader, project_id: str, app_user_id: str, key: PurchaseKey
) -> bool:
    async with connections.database.acquire() as connection:
        owner_id = await customers.owner_of(connection, project_id, key)
        project = await projects.load(connection, project_id)
    row = await reader.read(project_id, owner_id) if owner_id is not None else None
    if row is None or project is None:
        return True
    view = look_at(row, connections.now())
    owner = view.customer
    if app_user_id in owner.aliases:
        return True
    if not identity.came_from_an_app(owner, key):
        return False
    behavior = RestoreBehavior(project.restore_behavior)
    return identity.belongs_to(owner, app_user_id) or identity.may_move(behavior, owner, view.now)
