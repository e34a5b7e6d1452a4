"""Creating and editing an export that runs by itself."""

from typing import Any

from starlette.responses import Response

from latchkey.dashboard.form import Form
from latchkey.dashboard.page import Needs, Pages, Visit
from latchkey.domain.naming import checked_name
from latchkey.domain.refusal import Invalid
from latchkey.subjects.exports import render
from latchkey.subjects.exports.rules import Export
from latchkey.subjects.exports.usecases.export_formats import FORMATS
from latchkey.subjects.exports.usecases.runner import MOST_CUSTOMERS, MOST_EVENTS, download
from latchkey.subjects.exports.usecases.schedules import LONGEST_DESTINATION, MOST
from latchkey.subjects.exports.usecases.writer import WHAT

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


# Exports that run by themselves: the list, one export with its runs, and small downloads.


RUNS = 20
TYPES = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}


@pages.get("/exports")
async def show_all(visit: Visit) -> Response:
    found = await visit.services.exports.page(visit.project_id, None, MOST)
    last = await visit.services.exports.last_runs(visit.project_id)
    return visit.page(
        "exports.html",
        exports=[render.export(one) for one in found],
        last={id: render.run(id, one) for id, one in last.items()},
        every=dict(EVERY),
        what=[(one, one.capitalize()) for one in WHAT],
        formats=[("csv", "CSV"), ("jsonl", "JSON Lines"), ("parquet", "Parquet")],
        most_customers=MOST_CUSTOMERS,
        most_events=MOST_EVENTS,
    )


@pages.post("/exports/download", Needs.MANAGE, "export.downloaded", show_all)
async def send(visit: Visit) -> Response:
    what = visit.form.choice("what", WHAT)
    format = next(one for one in FORMATS if one == visit.form.choice("format", FORMATS))
    visit.audit(what, format=format)
    name, content = await download(visit.database, visit.project_id, what, format, visit.services.now)
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, headers=headers, media_type=TYPES[format])


@pages.get("/exports/{export_id}")
async def show_one(visit: Visit) -> Response:
    id, before = visit.param("export_id"), visit.query.text("before")
    export = await visit.services.exports.load(visit.project_id, id)
    start = int(before[:18]) if before.isascii() and before.isdigit() else None
    found = await visit.services.exports.runs(visit.project_id, id, start, RUNS + 1)
    older = visit.path("exports", id, before=found[RUNS - 1].id) if len(found) > RUNS else None
    return visit.page(
        "export.html",
        export=render.export(export),
        runs=[render.run(id, one) for one in found[:RUNS]],
        running=export.lease_until > visit.now,
        older=older,
        every=dict(EVERY),
    )


@pages.post("/exports/{export_id}/run", Needs.MANAGE, "export.started", show_one)
async def run(visit: Visit) -> Response:
    whole = visit.form.ticked("whole")
    await visit.services.exports.run_now(visit.project_id, visit.param("export_id"), visit.now, whole=whole)
    visit.audit(whole=whole)
    return await visit.to(_here(visit), "It runs as soon as a process has time. Reload this page to see how far it is.")


@pages.post("/exports/{export_id}/delete", Needs.MANAGE, "export.deleted", show_one)
async def delete(visit: Visit) -> Response:
    visit.form.confirmed()
    export = await visit.services.exports.load(visit.project_id, visit.param("export_id"))
    await visit.services.exports.delete(visit.project_id, export.id)
    visit.audit(name=export.settings.name, destination=export.settings.destination)
    return await visit.to(visit.path("exports"), "The export is deleted. What it wrote stays where it is.")


def _here(visit: Visit) -> str:
    return visit.path("exports", visit.param("export_id"))
