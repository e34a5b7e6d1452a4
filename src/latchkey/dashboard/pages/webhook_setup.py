"""Creating and editing a webhook: a long form, shown again filled in after an error."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from starlette.responses import Response

from latchkey.dashboard.form import Form
from latchkey.dashboard.page import Needs, Pages, Visit
from latchkey.delivery.webhook import IN_FLIGHT, Setup
from latchkey.domain.naming import checked_name
from latchkey.domain.refusal import Invalid
from latchkey.domain.webhooks.dialect import Dialect
from latchkey.domain.webhooks.retry import SCHEDULE
from latchkey.usecases.access.projects import list_apps
from latchkey.usecases.events.samples import TYPES
from latchkey.usecases.webhooks import registry as rules
from latchkey.usecases.webhooks import rendering as render

pages = Pages()

ENVIRONMENTS = (("both", "Both"), ("production", "Production"), ("sandbox", "Sandbox"))
DIALECTS = ((Dialect.LATCHKEY.value, "Latchkey"), (Dialect.REVENUECAT.value, "RevenueCat"))
_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_UNIT_WORDS = {"d": "days", "h": "h", "m": "min", "s": "s"}
_WAIT = re.compile(r"([0-9]{1,7})([smhd]?)")


@pages.get("/webhooks/new", Needs.MANAGE)
async def show_new(visit: Visit) -> Response:
    return await _form(visit, _values(Setup(name="", url="")))


@pages.post("/webhooks/new", Needs.MANAGE, "webhook.created", show_new)
async def create(visit: Visit) -> Response:
    visit.audit("a new webhook")
    made = await visit.services.webhooks.create(visit.project_id, given(visit.form, editing=False), visit.now)
    setup = made.webhook.setup
    visit.audit(made.webhook.id, name=setup.name, url=setup.url)
    return visit.page("webhook_secret.html", webhook=render.webhook(made), secret=made.webhook.secret, rotated=False)


@pages.get("/webhooks/{webhook_id}/edit", Needs.MANAGE)
async def show_edit(visit: Visit) -> Response:
    shown = await visit.services.webhooks.load(visit.project_id, visit.param("webhook_id"))
    return await _form(visit, _values(shown.webhook.setup), shown)


@pages.post("/webhooks/{webhook_id}/edit", Needs.MANAGE, "webhook.changed", show_edit)
async def edit(visit: Visit) -> Response:
    id = visit.param("webhook_id")
    changes = given(visit.form, editing=True)
    await visit.services.webhooks.update(visit.project_id, id, changes, visit.now)
    visit.audit(name=changes["name"], url=changes["url"], authorization_changed="authorization_header" in changes)
    return await visit.to(visit.path("webhooks", id), "Saved. The new settings apply from now on.")


def given(form: Form, *, editing: bool) -> dict[str, Any]:
    """With the field names of the API; the use case validates the values."""
    environment = form.choice("environment", [key for key, _ in ENVIRONMENTS])
    fields: dict[str, Any] = {
        "name": checked_name(form.text("name")),
        "url": _url(form.text("url")),
        "environment": None if environment == "both" else environment,
        "event_types": _types(form.all("event_types")),
        "app_id": form.text("app_id") or None,
        "retry_schedule_seconds": read_schedule(form.text("retries")),
        "in_flight_limit": form.number("in_flight_limit", IN_FLIGHT, low=1, high=rules.LARGEST_IN_FLIGHT),
    }
    if form.text("dialect"):
        fields["dialect"] = form.choice("dialect", [key for key, _ in DIALECTS])
    # The stored value is never shown, so an empty field means: unchanged.
    if form.text("authorization_header"):
        fields["authorization_header"] = form.text("authorization_header")
    elif editing and form.ticked("no_authorization"):
        fields["authorization_header"] = None
    return fields


def read_schedule(text: str) -> list[int]:
    """`5s 30s 2m 1h` as seconds; empty means no retries."""
    waits = [_WAIT.fullmatch(word) for word in text.replace(",", " ").split()]
    seconds = [int(one[1]) * _UNITS[one[2] or "s"] for one in waits if one is not None]
    right = len(seconds) == len(waits) <= rules.MOST_RETRIES
    if not right or not all(1 <= one <= rules.LONGEST_WAIT_SECONDS for one in seconds):
        raise Invalid(
            f"Retries are waits such as 5s 30s 2m 1h: at most {rules.MOST_RETRIES}, each from 1s to 7d.",
            param="retries",
        )
    return seconds


def write_schedule(seconds: Iterable[int]) -> str:
    return " ".join(_wait(one) for one in seconds)


def say_schedule(seconds: Iterable[int]) -> str:
    """To be read, not to be edited: `5 s, 30 s, 2 min, 1 day`."""
    waits = [_wait(one) for one in seconds]
    return ", ".join("1 day" if one == "1d" else f"{one[:-1]} {_UNIT_WORDS[one[-1]]}" for one in waits)


def _wait(seconds: int) -> str:
    return next(f"{seconds // size}{unit}" for unit, size in _UNITS.items() if seconds % size == 0)


def _url(text: str) -> str:
    if not text:
        raise Invalid("The URL is missing.", param="url")
    if len(text) > rules.LONGEST_URL:
        raise Invalid(f"The URL has at most {rules.LONGEST_URL:,} characters.", param="url")
    return text


def _types(chosen: list[str]) -> list[str]:
    if not set(chosen) <= set(TYPES):
        raise Invalid("There is no such event type.", param="event_types")
    return chosen


def _values(setup: Setup) -> dict[str, Any]:
    return {
        "name": setup.name,
        "url": setup.url,
        "environment": setup.environment or "both",
        "event_types": setup.event_types,
        "app_id": setup.app_id or "",
        "dialect": setup.dialect,
        "retries": write_schedule(setup.retry_seconds),
        "in_flight_limit": setup.in_flight_limit,
    }


def _typed(form: Form) -> dict[str, Any]:
    """The form's values, except the Authorization value: no page ever contains it."""
    known = _values(Setup(name="", url=""))
    typed = {name: form.text(name) for name in known if name != "event_types"}
    return {**typed, "event_types": form.all("event_types")}


async def _form(visit: Visit, values: dict[str, Any], shown: rules.Shown | None = None) -> Response:
    if visit.refusal is not None:
        values = _typed(visit.form)
    apps = [("", "Every app"), *((app.id, app.name) for app in await list_apps(visit.database, visit.project_id))]
    if values["app_id"] not in {id for id, _ in apps}:
        # Deleted, or beyond the first hundred. Without this option the form would silently change the filter to all
        # apps.
        apps.append((values["app_id"], values["app_id"]))
    wrong = visit.refusal.param if visit.refusal else None

    def attrs(name: str, **more: str) -> dict[str, str]:
        return {**more, "aria-invalid": "true"} if name == wrong else more

    return visit.page(
        "webhook_form.html",
        400 if visit.refusal else 200,
        webhook=render.webhook(shown) if shown else None,
        values=values,
        wrong=wrong,
        attrs=attrs,
        types=TYPES,
        environments=ENVIRONMENTS,
        dialects=DIALECTS,
        apps=apps,
        schedule=write_schedule(SCHEDULE),
    )
