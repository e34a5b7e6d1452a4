"""Creating and editing an export that runs by itself."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from latchkey.dashboard.form import Form
from latchkey.dashboard.page import Needs, Pages, Visit
from latchkey.domain.naming import checked_name
from latchkey.domain.refusal import Invalid
from latchkey.usecases.exports.engine import WHAT
from latchkey.usecases.exports.formats import FORMATS
from latchkey.usecases.exports.schedules import LONGEST_DESTINATION, Export
from latchkey.usecases.rendering import exports as render

pages = Pages()

EVERY = (("hour", "Every hour"), ("day", "Every day"), ("week", "Every week, on Monday"), ("never", "Only when asked"))
MODES = (("increment", "What changed since the last run"), ("whole", "Everything, every time"))
NEW: dict[str, Any] = {
    "name": "",
    "what": WHAT,
    "format": "parquet",
    "mode": "increment",
    "with_tokens": False,
    "destination": "",
    "endpoint": "",
    "region": "",
    "every": "day",
    "enabled": True,
}


@pages.get("/exports/new", Needs.MANAGE)
async def show_new(visit: Visit) -> Response:
    return _form(visit, NEW)


@pages.post("/exports/new", Needs.MANAGE, "export.created", show_new)
async def create(visit: Visit) -> Response:
    visit.audit("a new export")
    made = await visit.services.exports.create(visit.project_id, _given(visit.form), visit.now)
    _told(visit, made)
    return await visit.to(visit.path("exports", made.id), "The export is saved.")


@pages.get("/exports/{export_id}/edit", Needs.MANAGE)
async def show_edit(visit: Visit) -> Response:
    export = await visit.services.exports.load(visit.project_id, visit.param("export_id"))
    return _form(visit, _values(export), export)


@pages.post("/exports/{export_id}/edit", Needs.MANAGE, "export.changed", show_edit)
async def edit(visit: Visit) -> Response:
    id = visit.param("export_id")
    changed = await visit.services.exports.update(visit.project_id, id, _given(visit.form), visit.now)
    _told(visit, changed)
    return await visit.to(visit.path("exports", id), "Saved.")


def _told(visit: Visit, export: Export) -> None:
    settings = export.settings
    visit.audit(export.id, name=settings.name, destination=settings.destination, with_tokens=settings.with_tokens)


def _given(form: Form) -> dict[str, Any]:
    """With the field names of the API; the use case validates the values."""
    fields: dict[str, Any] = {
        "name": checked_name(form.text("name")),
        "what": form.all("what"),
        "format": form.choice("format", FORMATS),
        "incremental": form.choice("mode", [key for key, _ in MODES]) == "increment",
        "with_tokens": form.ticked("with_tokens"),
        "destination": form.needed("destination"),
        "endpoint": form.text("endpoint") or None,
        "region": form.text("region") or None,
        "every": form.choice("every", [key for key, _ in EVERY]),
        "enabled": form.ticked("enabled"),
    }
    if any(len(str(value)) > LONGEST_DESTINATION for value in fields.values()):
        raise Invalid(f"A field has at most {LONGEST_DESTINATION:,} characters.")
    # The stored keys are never shown, so empty fields mean: unchanged.
    for name in ("access_key_id", "secret_access_key"):
        if form.text(name):
            fields[name] = form.text(name)
    return fields


def _values(export: Export) -> dict[str, Any]:
    settings = export.settings
    return {
        "name": settings.name,
        "what": settings.what,
        "format": settings.format,
        "mode": "increment" if settings.incremental else "whole",
        "with_tokens": settings.with_tokens,
        "destination": settings.destination,
        "endpoint": settings.endpoint or "",
        "region": settings.region or "",
        "every": settings.every,
        "enabled": settings.enabled,
    }


def _typed(form: Form) -> dict[str, Any]:
    """What was typed, to fill the form in again. Without the keys."""
    names = ("name", "format", "mode", "destination", "endpoint", "region", "every")
    return {
        **{name: form.text(name) for name in names},
        "what": form.all("what"),
        "with_tokens": form.ticked("with_tokens"),
        "enabled": form.ticked("enabled"),
    }


def _form(visit: Visit, values: dict[str, Any], export: Export | None = None) -> Response:
    return visit.page(
        "export_form.html",
        export=render.export(export) if export is not None else None,
        values=_typed(visit.form) if visit.refusal else values,
        what=WHAT,
        formats=[(one, {"csv": "CSV", "jsonl": "JSON Lines", "parquet": "Parquet"}[one]) for one in FORMATS],
        every=EVERY,
        modes=MODES,
        folders=visit.settings.export_folder is not None,
    )
