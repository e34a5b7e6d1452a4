"""The delivery log of a webhook: what was sent, the receiver's responses, and sending again."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlencode

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from latchkey.api.audited import audited
from latchkey.api.authentication import ReadKey, WriteKey
from latchkey.api.errors import InvalidParameter
from latchkey.api.models import AppUserId, Body, Instant, Paging
from latchkey.api.routing import Router, reply, shows
from latchkey.api.services import Provided
from latchkey.api.v2.webhooks import EventType, EventTypes
from latchkey.delivery.queue import requeue
from latchkey.domain.instants import EARLIEST, LATEST
from latchkey.domain.refusal import NotFound
from latchkey.usecases.rendering.management import project_path
from latchkey.usecases.rendering.v2 import next_path
from latchkey.usecases.webhooks import log as delivery_log
from latchkey.usecases.webhooks import rendering as render
from latchkey.wire import webhooks as wire
from latchkey.wire.v2 import Page

router = Router(prefix="/v2/projects/{project_id}/integrations/webhooks/{webhook_id}", tags=["V2 webhook deliveries"])

_Moment = Query(ge=EARLIEST, le=LATEST, description="Epoch milliseconds.")


@router.get("/deliveries", responses=shows(Page[wire.Delivery]))
async def list_deliveries(
    services: Provided,
    caller: ReadKey,
    webhook_id: str,
    paging: Paging,
    status: Annotated[wire.DeliveryStatus | None, Query()] = None,
    type: Annotated[EventType | None, Query()] = None,
    customer_id: Annotated[AppUserId | None, Query()] = None,
    since_ms: Annotated[int | None, _Moment] = None,
    until_ms: Annotated[int | None, _Moment] = None,
) -> Response:
    """What was sent, newest first. With a filter for something rare, a page may be short and still have a next one."""
    in_order(since_ms, until_ms)
    chosen = delivery_log.Filter(status=status, type=type, customer_id=customer_id, since=since_ms, until=until_ms)
    found = await delivery_log.page_of_deliveries(
        services.database, caller.project_id, webhook_id, chosen, after=paging.after, limit=paging.limit
    )
    url = project_path(caller.project_id, "integrations", "webhooks", webhook_id, "deliveries")
    asked = {"status": status, "type": type, "customer_id": customer_id, "since_ms": since_ms, "until_ms": until_ms}
    following = None
    if found.after is not None:
        kept = urlencode({name: value for name, value in asked.items() if value is not None})
        following = next_path(url, paging.limit, found.after) + (f"&{kept}" if kept else "")
    items = [render.delivery(webhook_id, one) for one in found.deliveries]
    return reply(Page(items=items, next_page=following, url=url))


@router.get("/deliveries/{delivery_id}", responses=shows(wire.DeliveryWithAttempts))
async def read_delivery(services: Provided, caller: ReadKey, webhook_id: str, delivery_id: str) -> Response:
    """One delivery with all its attempts. It has the id of its event."""
    found = await delivery_log.load_delivery(services.database, caller.project_id, webhook_id, delivery_id)
    return reply(render.detail(webhook_id, found))


def in_order(since_ms: int | None, until_ms: int | None) -> None:
    if since_ms is not None and until_ms is not None and until_ms <= since_ms:
        raise InvalidParameter("until_ms must be later than since_ms.", param="until_ms")


class NewReplay(Body):
    since_ms: Instant
    until_ms: Annotated[Instant | None, Field(description="Defaults to now.")] = None
    status: Literal["failed", "all"]
    event_types: EventTypes = Field(default_factory=list)


@router.post(
    "/deliveries/{delivery_id}/resend",
    responses=shows(wire.DeliveryWithAttempts, 202),
    status_code=202,
    response_class=Response,
)
@audited("delivery.resent")
async def resend_delivery(services: Provided, caller: WriteKey, webhook_id: str, delivery_id: str) -> Response:
    """Send it again, at once, whatever its status. Event id and body stay the same."""
    # Raises the error that says whether the webhook or the delivery is missing.
    await delivery_log.load_delivery(services.database, caller.project_id, webhook_id, delivery_id)
    if not await requeue.resend(services.database, caller.project_id, webhook_id, delivery_id, services.now()):
        raise delivery_log.missing_delivery(webhook_id, delivery_id)
    found = await delivery_log.load_delivery(services.database, caller.project_id, webhook_id, delivery_id)
    return reply(render.detail(webhook_id, found), 202)


@router.post("/replay", responses=shows(wire.Replay, 202), status_code=202)
@audited("webhook.replayed")
async def start_replay(services: Provided, caller: WriteKey, webhook_id: str, new: NewReplay) -> Response:
    """Send again what failed in a time range, or everything that happened in it, including events from before the
    webhook existed. Runs in the background."""
    in_order(new.since_ms, new.until_ms)
    started = await requeue.start_replay(
        services.database,
        caller.project_id,
        webhook_id,
        since_ms=new.since_ms,
        until_ms=new.until_ms,
        status=new.status,
        event_types=tuple(dict.fromkeys(new.event_types)),
        now=services.now(),
    )
    if started is None:
        raise delivery_log.missing_webhook(webhook_id)
    return reply(render.replay(started), 202)


@router.get("/replays/{replay_id}", responses=shows(wire.Replay))
async def read_replay(services: Provided, caller: ReadKey, webhook_id: str, replay_id: str) -> Response:
    """The progress of a replay."""
    found = await requeue.load_replay(services.database, caller.project_id, webhook_id, replay_id)
    if found is None:
        raise NotFound(f"Webhook {webhook_id!r} has no replay {replay_id!r}.", param="replay_id")
    return reply(render.replay(found))
