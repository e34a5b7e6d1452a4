"""Webhooks: the list with their health, one webhook, the actions on it, and the form that creates or edits one."""

import re
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from msgspec import DecodeError, json, structs

from latchkey.dashboard import texts
from latchkey.dashboard.form import Form
from latchkey.dashboard.links import address, first_purchase
from latchkey.dashboard.page import Needs, Pages, Response, Visit
from latchkey.dashboard.templates import pretty
from latchkey.domain.events.customer_event import Dialect
from latchkey.domain.instants import DAY, HOUR
from latchkey.domain.naming import checked_name
from latchkey.domain.outgoing_address import Network
from latchkey.domain.refusal import Checks, Invalid, NotFound
from latchkey.domain.retry import SCHEDULE
from latchkey.subjects.projects.usecases import list_apps
from latchkey.subjects.webhooks import render
from latchkey.subjects.webhooks.delivery.destination import HIDDEN, OWN, DestinationSetup, presets
from latchkey.subjects.webhooks.delivery.queue import requeue_runs
from latchkey.subjects.webhooks.page.delivery_pages import decoded
from latchkey.subjects.webhooks.rules import IN_FLIGHT, DeliveryFilter, Setup, Webhook
from latchkey.subjects.webhooks.usecases import destination_settings, registry
from latchkey.subjects.webhooks.usecases.samples import TYPES, send_test
from latchkey.subjects.webhooks.wire import WebhookTest

pages = Pages()

ENVIRONMENTS = (("both", "Both"), ("production", "Production"), ("sandbox", "Sandbox"))
DIALECTS = ((Dialect.LATCHKEY.value, "Latchkey"), (Dialect.REVENUECAT.value, "RevenueCat"))
_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_UNIT_WORDS = {"d": "days", "h": "h", "m": "min", "s": "s"}
_WAIT = re.compile(r"([0-9]{1,7})([smhd]?)")


@pages.get("/webhooks/new", Needs.MANAGE)
async def show_new(visit: Visit) -> Response:
    preset = visit.query.text("to")
    if preset and preset not in presets():
        raise NotFound("There is no such destination.", param="to")
    return await _form(visit, Setup(name=presets()[preset].title if preset else "", url=""), preset)


@pages.post("/webhooks/new", Needs.MANAGE, "webhook.created", show_new)
async def create(visit: Visit) -> Response:
    visit.audit("a new webhook")
    made = await visit.services.webhooks.create(
        visit.project_id, given(visit.form, editing=False, allowed=visit.services.webhooks.allowed), visit.now
    )
    visit.audit(made.id, name=made.name, url=made.url)
    if made.destination is not None:
        return await visit.to(visit.path("webhooks", made.id), "Added. Send a test event to see whether it arrives.")
    return visit.page("webhook_secret.html", webhook=render.webhook(made), secret=made.secret, rotated=False)


@pages.post("/webhooks/preview", Needs.MANAGE, "webhook.previewed")
async def preview(visit: Visit) -> Response:
    """What would be sent to a destination. Nothing is stored."""
    preset = visit.form.choice("destination", presets())
    before = await _kept(visit, visit.form.text("webhook_id"))
    with Checks() as check:
        stored = check(destination_settings.checked, _destination(visit.form, preset, check), before)
    return visit.page(
        "webhook_preview.html", preset=presets()[preset], requests=destination_settings.preview(stored, visit.now)
    )


async def _kept(visit: Visit, id: str) -> str | None:
    """The stored destination: a secret that is not entered again stays."""
    return (await visit.services.webhooks.load(visit.project_id, id)).destination if id else None


@pages.get("/webhooks/{webhook_id}/edit", Needs.MANAGE)
async def show_edit(visit: Visit, webhook_id: str) -> Response:
    return await _form(visit, await visit.services.webhooks.load(visit.project_id, webhook_id))


@pages.post("/webhooks/{webhook_id}/edit", Needs.MANAGE, "webhook.changed", show_edit)
async def edit(visit: Visit, webhook_id: str) -> Response:
    kept, allowed = await _kept(visit, webhook_id), visit.services.webhooks.allowed
    changes = given(visit.form, editing=True, allowed=allowed, before=kept)
    await visit.services.webhooks.update(visit.project_id, webhook_id, changes, visit.now)
    visit.audit(name=changes["name"], url=changes.get("url"), authorization_changed="authorization_header" in changes)
    return await visit.to(visit.path("webhooks", webhook_id), "Saved. The new settings apply from now on.")


def given(form: Form, *, editing: bool, allowed: Sequence[Network] = (), before: str | None = None) -> dict[str, Any]:
    """With the field names of the API. `allowed`: private networks; `before`: the stored destination."""
    with Checks() as check:
        environment, types = check(form.choice, "environment", dict(ENVIRONMENTS)), form.all("event_types")
        if not set(types) <= set(TYPES):
            check.add(Invalid("There is no such event type.", param="event_types"))
        fields: dict[str, Any] = {
            "name": check(checked_name, form.text("name")),
            "environment": None if environment == "both" else environment,
            "event_types": types,
            "app_id": form.text("app_id") or None,
            "retry_schedule_seconds": check(read_schedule, form.text("retries")),
            "in_flight_limit": check(form.number, "in_flight_limit", IN_FLIGHT, low=1, high=registry.LARGEST_IN_FLIGHT),
        }
        if form.text("destination"):
            fields["destination"] = structs.asdict(_destination(form, form.choice("destination", presets()), check))
        else:
            fields["url"] = form.text("url")
            # The stored value is never shown, so an empty field means: unchanged.
            fields |= {name: form.text(name) for name in ("dialect", "authorization_header") if form.text(name)}
            if editing and form.ticked("no_authorization"):
                fields.setdefault("authorization_header")
        check(registry.checked_fields, fields, allowed, before)
    return fields


def _destination(form: Form, preset: str, check: Checks) -> DestinationSetup:
    """An empty field is left out: a stored secret is never shown, and stays."""
    names = [field.name for field in presets()[preset].fields]
    settings = {name: form.text(f"setting.{name}") for name in names if form.text(f"setting.{name}")}
    template = check(_template, form.text("template")) if preset == OWN else None
    return DestinationSetup(preset=preset, settings=settings, template=template)


def _template(text: str) -> Any:
    try:
        return json.decode(text)
    except (DecodeError, RecursionError) as error:
        raise Invalid(f"The template is not valid JSON: {error}", param="destination.template") from None


def read_schedule(text: str) -> list[int]:
    """`5s 30s 2m 1h` as seconds; empty means no retries."""
    waits = [_WAIT.fullmatch(word) for word in text.replace(",", " ").split()]
    seconds = [int(wait[1]) * _UNITS[wait[2] or "s"] for wait in waits if wait is not None]
    right = len(seconds) == len(waits) <= registry.MOST_RETRIES
    if not right or not all(1 <= second <= registry.LONGEST_WAIT_SECONDS for second in seconds):
        raise Invalid(
            f"Retries are waits such as 5s 30s 2m 1h: at most {registry.MOST_RETRIES}, each from 1s to 7d.",
            param="retries",
        )
    return seconds


def write_schedule(seconds: Iterable[int]) -> str:
    return " ".join(_wait(second) for second in seconds)


def say_schedule(seconds: Iterable[int]) -> str:
    """To be read, not to be edited: `5 s, 30 s, 2 min, 1 day`."""
    waits = [_wait(second) for second in seconds]
    return ", ".join("1 day" if wait == "1d" else f"{wait[:-1]} {_UNIT_WORDS[wait[-1]]}" for wait in waits)


def _wait(seconds: int) -> str:
    return next(f"{seconds // size}{unit}" for unit, size in _UNITS.items() if seconds % size == 0)


async def _form(visit: Visit, setup: Setup, preset: str = "") -> Response:
    shown, settings = render.destination(setup.destination), dict[str, str]()
    if shown is not None:
        preset, settings = shown.preset, {name: value for name, value in shown.settings.items() if value != HIDDEN}
    preset = visit.form.text("destination") or preset
    apps = [("", "Every app"), *((app.id, app.name) for app in await visit.run(list_apps))]
    if setup.app_id is not None and setup.app_id not in {id for id, _ in apps}:
        # Deleted, or beyond the first hundred. Without this option the form would silently change the filter to all
        # apps.
        apps.append((setup.app_id, setup.app_id))
    return visit.page(
        "webhook_form.html",
        400 if visit.refusal else 200,
        webhook=render.webhook(setup) if isinstance(setup, Webhook) else None,
        setup=setup,
        settings=settings,
        own_body=pretty(shown.template if shown else presets()[OWN].body),
        types=TYPES,
        environments=ENVIRONMENTS,
        dialects=DIALECTS,
        apps=apps,
        retries=write_schedule(setup.retry_seconds),
        schedule=write_schedule(SCHEDULE),
        presets=presets(),
        preset_id=preset,
        preset=presets().get(preset),
        has_template=preset == OWN,
    )


# Few, because the newest ten thousand deliveries of each webhook are examined.
ON_A_PAGE = 10
# How many deliveries the strip on a webhook's page shows, and how many are listed below it.
IN_STRIP, LISTED = 60, 8
OVERLAPS = ((0, "None: the old secret stops at once"), (HOUR, "1 hour"), (DAY, "1 day"), (7 * DAY, "7 days"))
EXAMPLE = {"name": "My app", "url": "https://app.example.com/webhooks", "authorization_header": "Bearer <your secret>"}


@pages.get("/webhooks")
async def show_all(visit: Visit) -> Response:
    found = await visit.services.webhooks.page(visit.project_id, visit.after, ON_A_PAGE + 1)
    shown, more = visit.paged(found, ON_A_PAGE, "webhooks")
    return visit.page(
        "webhooks.html",
        webhooks=[render.webhook(webhook) for webhook in shown],
        problems=await visit.run(registry.problems_of),
        more=more,
        call=visit.curl("integrations/webhooks", EXAMPLE),
    )


@pages.get("/webhooks/{webhook_id}")
async def show_one(visit: Visit) -> Response:
    return await _page(visit, await _load(visit))


@pages.post("/webhooks/{webhook_id}/test", Needs.MANAGE, "webhook.tested")
async def send_test_event(visit: Visit) -> Response:
    shown = await _load(visit)
    tried = await send_test(visit.services.sender, shown, visit.form.choice("type", TYPES), visit.now)
    visit.audit(type=tried.event_type, status=tried.status, error=tried.error or None)
    return await _page(visit, shown, tried)


@pages.post("/webhooks/{webhook_id}/pause", Needs.MANAGE, "webhook.paused")
async def pause(visit: Visit, webhook_id: str) -> Response:
    await visit.services.webhooks.update(visit.project_id, webhook_id, {"enabled": False}, visit.now)
    return await visit.to(_here(visit), "Paused. New deliveries are queued, and nothing is lost.")


@pages.post("/webhooks/{webhook_id}/resume", Needs.MANAGE, "webhook.resumed")
async def resume(visit: Visit, webhook_id: str) -> Response:
    await visit.services.webhooks.update(visit.project_id, webhook_id, {"enabled": True}, visit.now)
    return await visit.to(_here(visit), "Resumed. Queued deliveries are sent in order.")


@pages.post("/webhooks/{webhook_id}/send-waiting", Needs.MANAGE, "webhook.waiting_sent")
async def send_waiting(visit: Visit) -> Response:
    webhook = await _load(visit)
    customers = await visit.run(requeue_runs.send_waiting, webhook.key, visit.now)
    visit.audit(customers=customers)
    enabled = render.webhook(webhook).enabled
    words = "Everything that waits is sent now." if enabled else "It is sent when the webhook is resumed."
    return await visit.to(_here(visit), words if customers else "Nothing waits for a retry.")


@pages.confirmed("/webhooks/{webhook_id}/rotate", Needs.MANAGE, "webhook.secret_rotated")
async def rotate(visit: Visit, webhook_id: str) -> Response:
    overlap = int(visit.form.choice("overlap", [str(length) for length, _ in OVERLAPS])) // 1000
    rotated = await visit.services.webhooks.rotate(visit.project_id, webhook_id, overlap, visit.now)
    visit.audit(overlap_seconds=overlap)
    return visit.page("webhook_secret.html", webhook=render.webhook(rotated), secret=rotated.secret, rotated=True)


@pages.confirmed("/webhooks/{webhook_id}/delete", Needs.MANAGE, "webhook.deleted")
async def delete(visit: Visit) -> Response:
    shown = await _load(visit)
    await visit.services.webhooks.delete(visit.project_id, shown.id, visit.now)
    visit.audit(name=shown.name, url=shown.url)
    return await visit.to(visit.path("webhooks"), "The webhook is deleted. Nothing more is sent to it.")


async def _load(visit: Visit) -> Webhook:
    return await visit.services.webhooks.load(visit.project_id, visit.param("webhook_id"))


def _here(visit: Visit) -> str:
    return visit.path("webhooks", visit.param("webhook_id"))


async def _page(visit: Visit, shown: Webhook, tried: WebhookTest | None = None) -> Response:
    """The template gets the webhook as the API shows it, which contains no secret."""
    webhook = render.webhook(shown)
    log = await visit.run(registry.page_of_deliveries, webhook.id, DeliveryFilter(), after=None, limit=IN_STRIP)
    announced = await visit.run(registry.page_of_operational_events, webhook_id=webhook.id, after=None, limit=LISTED)
    failing = webhook.health.failing_since is not None
    failure = await visit.run(registry.last_failed_attempt, webhook.id) if failing else None
    return visit.page(
        "webhook.html",
        webhook=webhook,
        failure=decoded(failure) if failure else None,
        schedule=say_schedule(webhook.retry_schedule_seconds),
        presets=presets(),
        types=TYPES,
        overlaps=OVERLAPS,
        tried=tried,
        chosen=tried.event_type if tried else "TEST",
        strip=log.deliveries,
        deliveries=log.deliveries[:LISTED],
        customer_at=partial(address, visit),
        announced=announced,
        replays=await visit.run(requeue_runs.recent_replays, webhook.id, LISTED),
        # The format of a datetime-local field.
        since=texts.typed(webhook.health.failing_since or visit.now - DAY),
        purchase="" if log.deliveries else await first_purchase(visit),
    )
