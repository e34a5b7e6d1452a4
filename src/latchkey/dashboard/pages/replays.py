"""Replays: sending failed deliveries, or all events, of a time range again; and their progress."""

from __future__ import annotations

from typing import Literal

from starlette.responses import Response

from latchkey.dashboard import texts
from latchkey.dashboard.page import Needs, Pages
from latchkey.dashboard.pages.deliveries import in_order, load_webhook, read_moment
from latchkey.dashboard.visit import Visit
from latchkey.delivery.queue import requeue
from latchkey.domain.refusal import Invalid, NotFound
from latchkey.usecases.events.samples import TYPES
from latchkey.usecases.webhooks import log as delivery_log
from latchkey.usecases.webhooks import rendering as render

pages = Pages()


@pages.post("/webhooks/{webhook_id}/replays", Needs.MANAGE, "webhook.replayed")
async def start(visit: Visit) -> Response:
    webhook, form = await load_webhook(visit), visit.form
    form.confirmed()
    since, until = read_moment(form, "since"), read_moment(form, "until")
    if since is None:
        raise Invalid("Give the start time.", param="since")
    in_order(since, until)
    status: Literal["failed", "all"] = "all" if form.choice("status", ("failed", "all")) == "all" else "failed"
    types = form.all("event_types")
    if not set(types) <= set(TYPES):
        raise Invalid("There is no such event type.", param="event_types")
    started = await requeue.start_replay(
        visit.database,
        visit.project_id,
        webhook.id,
        since_ms=since,
        until_ms=until,
        status=status,
        event_types=tuple(dict.fromkeys(types)),
        now=visit.now,
    )
    if started is None:
        raise delivery_log.missing_webhook(webhook.id)
    visit.audit(replay=started.id, status=status, since_ms=since, until_ms=started.until_ms)
    return await visit.to(visit.path("webhooks", webhook.id, "replays", started.id))


@pages.get("/webhooks/{webhook_id}/replays/{replay_id}")
async def show(visit: Visit) -> Response:
    webhook, id = await load_webhook(visit), visit.param("replay_id")
    found = await requeue.load_replay(visit.database, visit.project_id, webhook.id, id)
    if found is None:
        raise NotFound("This webhook has no such replay.", param="replay_id")
    since = texts.iso(found.since_ms)[:16]  # the format of a datetime-local field
    return visit.page("webhook_replay.html", webhook=webhook, replay=render.replay(found), since=since)
