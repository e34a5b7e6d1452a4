"""Sending again: one delivery, or many."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from starlette.responses import Response

from latchkey.api.audited import audited
from latchkey.api.authentication import ReadKey, WriteKey
from latchkey.api.models import Body, Instant
from latchkey.api.replies import reply, shows
from latchkey.api.routing import Router
from latchkey.api.services import Provided
from latchkey.api.v2.deliveries import in_order
from latchkey.api.v2.webhooks import EventTypes
from latchkey.delivery.queue import requeue
from latchkey.domain.refusal import NotFound
from latchkey.usecases.webhooks import log as delivery_log
from latchkey.usecases.webhooks import rendering as render
from latchkey.wire import webhooks as wire

router = Router(prefix="/v2/projects/{project_id}/integrations/webhooks/{webhook_id}", tags=["V2 webhook deliveries"])


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


@router.post("/replay", responses=shows(wire.Replay, 202), status_code=202, response_class=Response)
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


@router.get("/replays/{replay_id}", responses=shows(wire.Replay), response_class=Response)
async def read_replay(services: Provided, caller: ReadKey, webhook_id: str, replay_id: str) -> Response:
    """The progress of a replay."""
    found = await requeue.load_replay(services.database, caller.project_id, webhook_id, replay_id)
    if found is None:
        raise NotFound(f"Webhook {webhook_id!r} has no replay {replay_id!r}.", param="replay_id")
    return reply(render.replay(found))
