"""The delivery log of a webhook, one delivery with its attempts, and sending again: one, or all of a time range."""

import re
from functools import partial
from typing import Any, get_args

from msgspec import Struct, json

from latchkey.dashboard import texts
from latchkey.dashboard.form import Form
from latchkey.dashboard.links import address, first_purchase
from latchkey.dashboard.page import Needs, Pages, Response, Visit
from latchkey.domain.refusal import Invalid, Refusal, found
from latchkey.subjects.webhooks import render, rules
from latchkey.subjects.webhooks.delivery.queue import requeue_runs
from latchkey.subjects.webhooks.usecases import registry
from latchkey.subjects.webhooks.usecases.samples import TYPES
from latchkey.subjects.webhooks.wire import Webhook

pages = Pages()

ON_A_PAGE = 50
# In the filter by HTTP status: tried without a response.
NO_ANSWER = "none"
STATUSES: tuple[rules.Chosen, ...] = get_args(rules.Chosen)
WHICH: tuple[rules.Which, ...] = get_args(rules.Which)


@pages.get("/webhooks/{webhook_id}/deliveries")
async def show_log(visit: Visit) -> Response:
    webhook, asked = await load_webhook(visit), visit.query
    error, page = "", rules.DeliveryPage([], None)
    try:
        chosen = read_filter(asked)
        page = await visit.run(
            registry.page_of_deliveries, webhook.id, chosen, after=asked.text("after") or None, limit=ON_A_PAGE
        )
    except Refusal as refusal:
        error = refusal.message
    kept = {name: asked.text(name) for name in ("status", "answered", "type", "customer", "since", "until")}
    return visit.page(
        "delivery_log.html",
        400 if error else 200,
        webhook=webhook,
        deliveries=page.deliveries,
        customer_at=partial(address, visit),
        more=visit.path("webhooks", webhook.id, "deliveries", **kept, after=page.after) if page.after else None,
        kept=kept,
        filtered=any(kept.values()) or bool(asked.text("after")),
        error=error,
        types=TYPES,
        statuses=STATUSES,
        purchase="" if page.deliveries or error else await first_purchase(visit),
    )


@pages.get("/webhooks/{webhook_id}/deliveries/{event_id}")
async def show_delivery(visit: Visit, webhook_id: str, event_id: str) -> Response:
    stored = await visit.services.webhooks.load(visit.project_id, webhook_id)
    detail = await visit.run(registry.load_delivery, stored.id, event_id)
    shown = render.detail(stored, detail, visit.services.sender.public_url)
    webhook, customer_at = render.webhook(stored), partial(address, visit)
    return visit.page("delivery.html", webhook=webhook, delivery=decoded(shown), customer_at=customer_at)


@pages.post("/webhooks/{webhook_id}/deliveries/{event_id}/resend", Needs.MANAGE, "delivery.resent")
async def resend(visit: Visit, event_id: str) -> Response:
    webhook = await load_webhook(visit)
    await visit.run(registry.resend, webhook.id, event_id, visit.now)
    words = "It is being sent again." if webhook.enabled else "It will be sent as soon as the webhook is resumed."
    return await visit.to(visit.path("webhooks", webhook.id, "deliveries", event_id), words)


async def load_webhook(visit: Visit) -> Webhook:
    return render.webhook(await visit.services.webhooks.load(visit.project_id, visit.param("webhook_id")))


def read_filter(asked: Form) -> rules.DeliveryFilter:
    since, until = asked.span()
    return rules.DeliveryFilter(
        status=asked.chosen("status", STATUSES),
        type=asked.chosen("type", TYPES),
        answered=read_answered(asked.text("answered")),
        customer_id=asked.text("customer") or None,
        since=since,
        until=until,
    )


def read_answered(text: str) -> rules.StatusRange | None:
    """`503` is that status, `5xx` any that begins with 5, `none` an attempt without a response."""
    if not text:
        return None
    word = text.lower()
    if word == NO_ANSWER:
        return rules.StatusRange(0, 0)
    if re.fullmatch("[1-5]xx", word):
        return rules.StatusRange(int(word[0]) * 100, int(word[0]) * 100 + 99)
    if re.fullmatch("[1-5][0-9]{2}", word):
        return rules.StatusRange(int(word), int(word))
    raise Invalid(f"An HTTP status is a number such as 503, a class such as 5xx, or {NO_ANSWER}.", param="answered")


def decoded(shown: Struct) -> Any:
    """What the API would show, with the JSON in it."""
    return json.decode(json.encode(shown))


@pages.get("/webhooks/{webhook_id}/replays/new", Needs.MANAGE)
async def count(visit: Visit, webhook_id: str) -> Response:
    """What a replay would send, before it is started."""
    shown, wanted = await visit.services.webhooks.load(visit.project_id, webhook_id), _read(visit.query)
    counted = await requeue_runs.count_replay(visit.database, shown, wanted, visit.now)
    webhook = render.webhook(shown)
    return visit.page("webhook_replay_new.html", webhook=webhook, wanted=wanted, counted=counted, asked=visit.query)


@pages.post("/webhooks/{webhook_id}/replays", Needs.MANAGE, "webhook.replayed")
async def start(visit: Visit) -> Response:
    webhook, form = await load_webhook(visit), visit.form
    form.confirmed()
    wanted = _read(form)
    if not set(wanted.event_types) <= set(TYPES):
        raise Invalid("There is no such event type.", param="event_types")
    started = await visit.run(requeue_runs.start_replay, webhook.id, wanted, visit.now)
    visit.audit(replay=started.id, status=wanted.status, since_ms=wanted.since_ms, until_ms=started.until_ms)
    return await visit.to(visit.path("webhooks", webhook.id, "replays", started.id))


@pages.post("/webhooks/{webhook_id}/replays/{replay_id}/stop", Needs.MANAGE, "webhook.replay_stopped")
async def stop(visit: Visit, webhook_id: str, replay_id: str) -> Response:
    taken_back = await visit.run(requeue_runs.stop_replay, webhook_id, replay_id, visit.now)
    found(taken_back, "This webhook has no such replay, or it was stopped before.", "replay_id")
    visit.audit(replay_id, taken_back=taken_back)
    return await visit.to(visit.path("webhooks", webhook_id, "replays", replay_id), "The replay is stopped.")


@pages.get("/webhooks/{webhook_id}/replays/{replay_id}")
async def show(visit: Visit, replay_id: str) -> Response:
    webhook = await load_webhook(visit)
    replay = await visit.run(requeue_runs.load_replay, webhook.id, replay_id)
    underway = replay.state == "running" or await visit.run(requeue_runs.is_queued, replay.id)
    since = texts.typed(replay.since_ms)
    return visit.page("webhook_replay.html", webhook=webhook, replay=replay, underway=underway, since=since)


def _read(form: Form) -> rules.ReplayRange:
    since, until = form.span()
    if since is None:
        raise Invalid("Give the start time.", param="since")
    return rules.ReplayRange(since, until, form.choice("status", WHICH), tuple(dict.fromkeys(form.all("event_types"))))
