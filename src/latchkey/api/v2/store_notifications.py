"""The journal of what the stores sent: list, read, process again."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlencode

from fastapi import Query
from starlette.responses import Response

from latchkey.api.audited import audited
from latchkey.api.authentication import ReadKey, WriteKey
from latchkey.api.models import Body, Instant, Paging
from latchkey.api.routing import Router, reply, shows
from latchkey.api.services import Provided
from latchkey.api.v2.deliveries import in_order
from latchkey.domain.instants import EARLIEST, LATEST
from latchkey.storage.stores.journal import Filter
from latchkey.usecases.access.projects import load_app
from latchkey.usecases.engine.admission import Caller
from latchkey.usecases.rendering.management import project_path
from latchkey.usecases.rendering.v2 import next_path
from latchkey.usecases.stores import journal
from latchkey.usecases.stores import rendering as render
from latchkey.wire import stores as wire
from latchkey.wire.v2 import Page

router = Router(prefix="/v2/projects/{project_id}/store_notifications", tags=["V2 store notifications"])

Status = Literal["waiting", "applied", "ignored", "failed"]
_Moment = Query(ge=EARLIEST, le=LATEST, description="Epoch milliseconds.")
_Text = Query(min_length=1, max_length=200, pattern=r"^[^\x00]+$")


class Again(Body):
    since_ms: Instant
    status: Status | None = None
    app_id: str | None = None


@router.get("", responses=shows(Page[wire.StoreNotification]))
async def list_store_notifications(
    services: Provided,
    caller: ReadKey,
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
    wanted = Filter(app_id=app_id, status=status, kind=kind, subject=subject, since=since_ms, until=until_ms)
    found = await journal.page(services.database, caller.project_id, wanted, after=paging.after, limit=paging.limit + 1)
    url = project_path(caller.project_id, "store_notifications")
    following = None
    if len(found) > paging.limit:
        asked = {
            "app_id": app_id,
            "status": status,
            "kind": kind,
            "subject": subject,
            "since_ms": since_ms,
            "until_ms": until_ms,
        }
        kept = urlencode({name: value for name, value in asked.items() if value is not None})
        following = next_path(url, paging.limit, journal.name_of(found[paging.limit - 1])) + (
            f"&{kept}" if kept else ""
        )
    items = [render.notification(one, trusted=_is_trusted(caller)) for one in found[: paging.limit]]
    return reply(Page(items=items, next_page=following, url=url))


@router.post("/reprocess", responses=shows(wire.Reprocessed))
@audited("store_notifications.reprocessed", about="store notifications")
async def reprocess_store_notifications(services: Provided, caller: WriteKey, again: Again) -> Response:
    """Process what was received since a moment once more, all of it or one status or app. Applying it again does no
    harm: what is known already changes nothing."""
    if again.app_id is not None:
        await load_app(services.database, caller.project_id, again.app_id)
    count = await journal.reprocess_since(
        services.database, caller.project_id, again.since_ms, again.status, again.app_id, services.now()
    )
    return reply(wire.Reprocessed(count=count))


@router.get("/{notification_id}", responses=shows(wire.StoreNotification))
async def read_store_notification(services: Provided, caller: ReadKey, notification_id: str) -> Response:
    """One notification. `payload`, as it came, is only given to keys with the scope `write`: signed transactions and
    purchase tokens in it can be shown as receipts."""
    found = await journal.load(services.database, caller.project_id, notification_id)
    return reply(render.notification(found, trusted=_is_trusted(caller), whole=True))


@router.post("/{notification_id}/reprocess", responses=shows(wire.StoreNotification))
@audited("store_notification.reprocessed")
async def reprocess_store_notification(services: Provided, caller: WriteKey, notification_id: str) -> Response:
    """Process it once more."""
    found = await journal.reprocess(services.database, caller.project_id, notification_id, services.now())
    return reply(render.notification(found, trusted=True))


def _is_trusted(caller: Caller) -> bool:
    return "write" in caller.scopes
