"""Where stores send their notifications: a URL for each app, with a token that nobody can guess.

The answer tells the store whether to try again: 2xx when the notification is in the journal, 5xx when it could not be
checked or stored now, 4xx when it will never be taken.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

import structlog
from fastapi import Query, Request
from msgspec import Struct

from latchkey.domain.instants import EARLIEST, LATEST
from latchkey.engine.admission import Caller
from latchkey.http.authentication import Provided, ReadKey, WriteKey
from latchkey.http.errors import BadRequest, Forbidden, StoreNotConnected, Unauthenticated
from latchkey.http.models import Body, Instant, Paging, in_order
from latchkey.http.routing import Response, Router, reply, shows
from latchkey.http.services import Services
from latchkey.stores.errors import CredentialsRefused, Malformed, Misdirected, NotAuthentic, StoreDown
from latchkey.subjects.projects.usecases import load_app
from latchkey.subjects.purchase_intake import render, wire
from latchkey.subjects.purchase_intake.rules import JournalFilter
from latchkey.subjects.purchase_intake.usecases import journal
from latchkey.wire.v2 import Page

incoming_router = Router(tags=["Stores"])

log = structlog.get_logger()
INCOMING = "/incoming/{token}"


class AcceptedNotification(Struct, frozen=True, kw_only=True):
    received: bool = True
    # It was in the journal already, so nothing follows from this one.
    duplicate: bool


# Not in the document: stores do not read it, and everybody else must not use it.
@incoming_router.post(INCOMING, include_in_schema=False)
async def receive_notification(request: Request, services: Provided, token: str) -> Response:
    return reply(await accept(services, token, await request.body(), request.headers))


async def accept(services: Services, token: str, body: bytes, headers: Mapping[str, str]) -> AcceptedNotification:
    try:
        new = await services.inbox.receive(token, body, headers)
    except (NotAuthentic, Misdirected, Malformed) as error:
        log.warning("notification refused", app_id=await _app_of(services, token), reason=error.message)
        kind = Unauthenticated if isinstance(error, NotAuthentic) else BadRequest
        raise (Forbidden if isinstance(error, Misdirected) else kind)(error.message) from error
    except (StoreDown, CredentialsRefused) as error:
        log.warning("notification not checked", app_id=await _app_of(services, token), reason=error.message)
        raise StoreNotConnected(error.message) from error
    except journal.NotConnected as error:
        log.error("notification for an app without credentials", app_id=await _app_of(services, token))
        raise StoreNotConnected("This app has no credentials for its store yet, so nothing can be checked.") from error
    return AcceptedNotification(duplicate=not new)


async def _app_of(services: Services, token: str) -> str | None:
    """Whose URL it is. The token itself is a secret and never logged."""
    known = await services.stores.by_token(token)
    return known.app_id if known is not None else None


store_notifications_router = Router(
    prefix="/v2/projects/{project_id}/store_notifications", tags=["V2 store notifications"]
)

Status = Literal["waiting", "applied", "ignored", "failed"]
_Moment = Query(ge=EARLIEST, le=LATEST, description="Epoch milliseconds.")
_Text = Query(min_length=1, max_length=200, pattern=r"^[^\x00]+$")


class Again(Body):
    since_ms: Instant
    status: Status | None = None
    app_id: str | None = None


@store_notifications_router.get("", responses=shows(Page[wire.StoreNotification]))
async def list_store_notifications(
    call: ReadKey,
    paging: Paging,
    app_id: Annotated[str | None, _Text] = None,
    status: Annotated[Status | None, Query()] = None,
    kind: Annotated[str | None, _Text] = None,
    subject: Annotated[str | None, _Text] = None,
    since_ms: Annotated[int | None, _Moment] = None,
    until_ms: Annotated[int | None, _Moment] = None,
) -> Response:
    """What the stores sent, newest first. `kind` is how the store's own name for it begins. A key without the scope
    `write` sees only the beginning of a Google Play purchase token in `subject`: a token can be shown as a receipt."""
    in_order(since_ms, until_ms)
    wanted = JournalFilter(app_id=app_id, status=status, kind=kind, subject=subject, since=since_ms, until=until_ms)
    found = await call.run(journal.page, wanted, after=paging.after, limit=paging.limit + 1)
    items = [render.notification(entry, trusted=_is_trusted(call.caller)) for entry in found]
    asked = {"app_id": app_id, "status": status, "kind": kind, "subject": subject}
    filters = {**asked, "since_ms": since_ms, "until_ms": until_ms}
    return reply(paging.of(items, filters={name: str(value) for name, value in filters.items() if value is not None}))


@store_notifications_router.acts(
    "/reprocess", wire.Reprocessed, "store_notifications.reprocessed", about="store notifications"
)
async def reprocess_store_notifications(call: WriteKey, again: Again) -> Response:
    """Process what was received since a moment once more, all of it or one status or app. Applying it again does no
    harm: what is known already changes nothing."""
    if again.app_id is not None:
        await call.run(load_app, again.app_id)
    count = await call.run(journal.reprocess_since, again.since_ms, again.status, again.app_id, call.now())
    return reply(wire.Reprocessed(count=count))


@store_notifications_router.get("/{notification_id}", responses=shows(wire.StoreNotification))
async def read_store_notification(call: ReadKey, notification_id: str) -> Response:
    """One notification. `payload`, as it came, is only given to keys with the scope `write`: signed transactions and
    purchase tokens in it can be shown as receipts."""
    found = await call.run(journal.load, notification_id)
    return reply(render.notification(found, trusted=_is_trusted(call.caller), whole=True))


@store_notifications_router.acts(
    "/{notification_id}/reprocess", wire.StoreNotification, "store_notification.reprocessed"
)
async def reprocess_store_notification(call: WriteKey, notification_id: str) -> Response:
    """Process it once more."""
    return reply(render.notification(await call.run(journal.reprocess, notification_id, call.now()), trusted=True))


def _is_trusted(caller: Caller) -> bool:
    return "write" in caller.scopes
