"""Webhooks: the list with their health, one webhook, and the actions on it."""

from __future__ import annotations

from functools import partial

from msgspec import json
from starlette.responses import Response

from latchkey.dashboard import texts
from latchkey.dashboard.customer_address import address
from latchkey.dashboard.page import Needs, Pages, Visit
from latchkey.dashboard.pages.deliveries import shown_attempt
from latchkey.dashboard.pages.webhook_setup import say_schedule
from latchkey.dashboard.snippets import curl, first_purchase
from latchkey.delivery.queue import requeue
from latchkey.domain.instants import DAY, HOUR
from latchkey.usecases.events.samples import TYPES
from latchkey.usecases.webhooks import log as delivery_log
from latchkey.usecases.webhooks import rendering as render
from latchkey.usecases.webhooks.log import page_of_operational_events, recent_replays, troubles_of
from latchkey.usecases.webhooks.registry import Shown
from latchkey.usecases.webhooks.trial_send import Tried, send_test

pages = Pages()

# Few, because the newest ten thousand deliveries of each webhook are examined.
ON_A_PAGE = 10
# How many deliveries the strip on a webhook's page shows, and how many are listed below it.
IN_STRIP, LISTED = 60, 8
OVERLAPS = ((0, "None: the old one stops at once"), (HOUR, "1 hour"), (DAY, "1 day"), (7 * DAY, "7 days"))
EXAMPLE = {
    "name": "My app",
    "url": "https://app.example.com/webhooks",
    "authorization_header": "Bearer <your secret>",
}


@pages.get("/webhooks")
async def show_all(visit: Visit) -> Response:
    found = await visit.services.webhooks.page(visit.project_id, visit.query.text("after") or None, ON_A_PAGE + 1)
    more = len(found) > ON_A_PAGE
    return visit.page(
        "webhooks.html",
        webhooks=[render.webhook(one) for one in found[:ON_A_PAGE]],
        troubles=await troubles_of(visit.database, visit.project_id),
        more=visit.path("webhooks", after=found[ON_A_PAGE - 1].webhook.id) if more else None,
        call=curl(visit, "integrations/webhooks", EXAMPLE),
    )


@pages.get("/webhooks/{webhook_id}")
async def show_one(visit: Visit) -> Response:
    return await _page(visit, await _load(visit))


@pages.post("/webhooks/{webhook_id}/test", Needs.MANAGE, "webhook.tested")
async def send_test_event(visit: Visit) -> Response:
    shown = await _load(visit)
    tried = await send_test(visit.services.sender, shown.webhook, visit.form.choice("type", TYPES), visit.now)
    visit.audit(type=tried.event_type, status=tried.answer.status, error=tried.answer.error)
    return await _page(visit, shown, tried)


@pages.post("/webhooks/{webhook_id}/pause", Needs.MANAGE, "webhook.paused")
async def pause(visit: Visit) -> Response:
    await visit.services.webhooks.update(visit.project_id, visit.param("webhook_id"), {"enabled": False}, visit.now)
    return await visit.to(_here(visit), "Paused. New deliveries are queued, and nothing is lost.")


@pages.post("/webhooks/{webhook_id}/resume", Needs.MANAGE, "webhook.resumed")
async def resume(visit: Visit) -> Response:
    await visit.services.webhooks.update(visit.project_id, visit.param("webhook_id"), {"enabled": True}, visit.now)
    return await visit.to(_here(visit), "Resumed. Queued deliveries are sent in order.")


@pages.post("/webhooks/{webhook_id}/send-waiting", Needs.MANAGE, "webhook.waiting_sent")
async def send_waiting(visit: Visit) -> Response:
    webhook = (await _load(visit)).webhook
    customers = await requeue.send_waiting(visit.database, visit.project_id, webhook.key, visit.now)
    visit.audit(customers=customers)
    words = "Everything that waits is sent now." if webhook.setup.enabled else "It is sent when the webhook is resumed."
    return await visit.to(_here(visit), words if customers else "Nothing waits for a retry.")


@pages.post("/webhooks/{webhook_id}/rotate", Needs.MANAGE, "webhook.secret_rotated")
async def rotate(visit: Visit) -> Response:
    visit.form.confirmed()
    overlap = int(visit.form.choice("overlap", [str(length) for length, _ in OVERLAPS])) // 1000
    rotated = await visit.services.webhooks.rotate(visit.project_id, visit.param("webhook_id"), overlap, visit.now)
    visit.audit(overlap_seconds=overlap)
    return visit.page(
        "webhook_secret.html", webhook=render.webhook(rotated), secret=rotated.webhook.secret, rotated=True
    )


@pages.post("/webhooks/{webhook_id}/delete", Needs.MANAGE, "webhook.deleted")
async def delete(visit: Visit) -> Response:
    visit.form.confirmed()
    shown = await _load(visit)
    await visit.services.webhooks.delete(visit.project_id, shown.webhook.id, visit.now)
    visit.audit(name=shown.webhook.setup.name, url=shown.webhook.setup.url)
    return await visit.to(visit.path("webhooks"), "The webhook is deleted. Nothing more is sent to it.")


async def _load(visit: Visit) -> Shown:
    return await visit.services.webhooks.load(visit.project_id, visit.param("webhook_id"))


def _here(visit: Visit) -> str:
    return visit.path("webhooks", visit.param("webhook_id"))


async def _page(visit: Visit, shown: Shown, tried: Tried | None = None) -> Response:
    """The template gets the webhook as the API shows it, which contains no secret."""
    webhook = render.webhook(shown)
    log = await delivery_log.page_of_deliveries(
        visit.database, visit.project_id, webhook.id, delivery_log.Filter(), after=None, limit=IN_STRIP
    )
    announced = await page_of_operational_events(
        visit.database, visit.project_id, webhook_id=webhook.id, after=None, limit=LISTED
    )
    failing = webhook.health.failing_since is not None
    failure = await delivery_log.last_failed_attempt(visit.database, visit.project_id, webhook.id) if failing else None
    return visit.page(
        "webhook.html",
        webhook=webhook,
        failure=failure,
        failed_attempt=shown_attempt(failure.attempt) if failure else None,
        schedule=say_schedule(webhook.retry_schedule_seconds),
        types=TYPES,
        overlaps=OVERLAPS,
        tried=tried,
        tried_headers=json.decode(tried.answer.response_headers, type=list[tuple[str, str]]) if tried else [],
        chosen=tried.event_type if tried else "TEST",
        strip=log.deliveries,
        deliveries=log.deliveries[:LISTED],
        customer_at=partial(address, visit),
        announced=announced,
        replays=await recent_replays(visit.database, visit.project_id, webhook.id, LISTED),
        # The format of a datetime-local field.
        since=texts.iso(webhook.health.failing_since or visit.now - DAY)[:16],
        purchase="" if log.deliveries else await first_purchase(visit),
    )
