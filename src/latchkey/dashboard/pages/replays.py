"""Replays: sending failed deliveries, or all events, of a time range again; and their progress."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from starlette.responses import Response

from latchkey.dashboard import texts
from latchkey.dashboard.form import Form
from latchkey.dashboard.page import Needs, Pages, Visit
from latchkey.dashboard.pages.deliveries import in_order, load_webhook, read_moment
from latchkey.delivery.queue import requeue
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Invalid, NotFound
from latchkey.usecases.events.samples import TYPES
from latchkey.usecases.webhooks import log as delivery_log
from latchkey.usecases.webhooks import rendering as render

pages = Pages()


@dataclass(frozen=True, slots=True)
class Wanted:
    since: Ms
    until: Ms | None
    status: Literal["failed", "all"]


@pages.get("/webhooks/{webhook_id}/replays/new", Needs.MANAGE)
async def count(visit: Visit) -> Response:
    """What a replay would send, before it is started."""
    shown, wanted = await visit.services.webhooks.load(visit.project_id, visit.param("webhook_id")), _read(visit.query)
    counted = await requeue.count_replay(
        visit.database,
        shown.webhook,
        since_ms=wanted.since,
        until_ms=wanted.until,
        status=wanted.status,
        now=visit.now,
    )
    webhook = render.webhook(shown)
    return visit.page("webhook_replay_new.html", webhook=webhook, wanted=wanted, counted=counted, asked=visit.query)


@pages.post("/webhooks/{webhook_id}/replays", Needs.MANAGE, "webhook.replayed")
async def start(visit: Visit) -> Response:
    webhook, form = await load_webhook(visit), visit.form
    form.confirmed()
    wanted, types = _read(form), form.all("event_types")
    if not set(types) <= set(TYPES):
        raise Invalid("There is no such event type.", param="event_types")
    started = await requeue.start_replay(
        visit.database,
        visit.project_id,
        webhook.id,
        since_ms=wanted.since,
        until_ms=wanted.until,
        status=wanted.status,
        event_types=tuple(dict.fromkeys(types)),
        now=visit.now,
    )
    if started is None:
        raise delivery_log.missing_webhook(webhook.id)
    visit.audit(replay=started.id, status=wanted.status, since_ms=wanted.since, until_ms=started.until_ms)
    return await visit.to(visit.path("webhooks", webhook.id, "replays", started.id))


@pages.post("/webhooks/{webhook_id}/replays/{replay_id}/stop", Needs.MANAGE, "webhook.replay_stopped")
async def stop(visit: Visit) -> Response:
    webhook_id, id = visit.param("webhook_id"), visit.param("replay_id")
    taken_back = await requeue.stop_replay(visit.database, visit.project_id, webhook_id, id, visit.now)
    if taken_back is None:
        raise NotFound("This webhook has no such replay, or it was stopped before.", param="replay_id")
    visit.audit(id, taken_back=taken_back)
    return await visit.to(visit.path("webhooks", webhook_id, "replays", id), "The replay is stopped.")


@pages.get("/webhooks/{webhook_id}/replays/{replay_id}")
async def show(visit: Visit) -> Response:
    webhook, id = await load_webhook(visit), visit.param("replay_id")
    found = await requeue.load_replay(visit.database, visit.project_id, webhook.id, id)
    if found is None:
        raise NotFound("This webhook has no such replay.", param="replay_id")
    since = texts.iso(found.since_ms)[:16]  # the format of a datetime-local field
    return visit.page("webhook_replay.html", webhook=webhook, replay=render.replay(found), since=since)


def _read(form: Form) -> Wanted:
    since, until = read_moment(form, "since"), read_moment(form, "until")
    if since is None:
        raise Invalid("Give the start time.", param="since")
    in_order(since, until)
    return Wanted(since, until, "all" if form.choice("status", ("failed", "all")) == "all" else "failed")
