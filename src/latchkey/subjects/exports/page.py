"""Exports that run by themselves: the list, the form, one export with its runs; and small downloads."""

from typing import Any

from latchkey.dashboard.form import Form
from latchkey.dashboard.page import Needs, Pages, Response, Visit
from latchkey.subjects.exports.rules import Export, ExportSettings
from latchkey.subjects.exports.usecases import schedules
from latchkey.subjects.exports.usecases.export_formats import FORMATS
from latchkey.subjects.exports.usecases.writer import WHAT

pages = Pages()

EVERY = (("hour", "Every hour"), ("day", "Every day"), ("week", "Every week, on Monday"), ("never", "Only when asked"))
MODES = (("increment", "What changed since the last run"), ("whole", "Everything, every time"))
FORMAT_TITLES = (("csv", "CSV"), ("jsonl", "JSON Lines"), ("parquet", "Parquet"))
NEW = ExportSettings(name="", what=WHAT, destination="")


@pages.get("/exports/new", Needs.MANAGE)
async def show_new(visit: Visit) -> Response:
    return _form(visit)


@pages.post("/exports/new", Needs.MANAGE, "export.created", show_new)
async def create(visit: Visit) -> Response:
    visit.audit("a new export")
    made = await visit.services.exports.create(visit.project_id, _given(visit.form), visit.now)
    _told(visit, made)
    return await visit.to(visit.path("exports", made.id), "The export is saved.")


@pages.get("/exports/{export_id}/edit", Needs.MANAGE)
async def show_edit(visit: Visit, export_id: str) -> Response:
    return _form(visit, await visit.run(schedules.load_export, export_id))


@pages.post("/exports/{export_id}/edit", Needs.MANAGE, "export.changed", show_edit)
async def edit(visit: Visit, export_id: str) -> Response:
    changed = await visit.services.exports.update(visit.project_id, export_id, _given(visit.form), visit.now)
    _told(visit, changed)
    return await visit.to(visit.path("exports", export_id), "Saved.")


def _told(visit: Visit, export: Export) -> None:
    visit.audit(export.id, name=export.name, destination=export.destination, with_tokens=export.with_tokens)


def _given(form: Form) -> dict[str, Any]:
    """With the field names of the API; the use case validates the values."""
    fields: dict[str, Any] = {
        "name": form.text("name"),
        "what": form.all("what"),
        "format": form.choice("format", FORMATS),
        "incremental": form.choice("mode", [key for key, _ in MODES]) == "increment",
        "with_tokens": form.ticked("with_tokens"),
        "destination": form.text("destination"),
        "endpoint": form.text("endpoint") or None,
        "region": form.text("region") or None,
        "every": form.choice("every", [key for key, _ in EVERY]),
        "enabled": form.ticked("enabled"),
    }
    # The stored keys are never shown, so empty fields mean: unchanged.
    for name in ("access_key_id", "secret_access_key"):
        if form.text(name):
            fields[name] = form.text(name)
    return fields


def _form(visit: Visit, export: Export | None = None) -> Response:
    return visit.page(
        "export_form.html",
        export=export,
        values=export or NEW,
        what=WHAT,
        formats=FORMAT_TITLES,
        every=EVERY,
        modes=MODES,
        folders=visit.settings.export_folder is not None,
    )


RUNS = 20
TYPES = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson", "parquet": "application/vnd.apache.parquet"}


@pages.get("/exports")
async def show_all(visit: Visit) -> Response:
    return visit.page(
        "exports.html",
        exports=await visit.run(schedules.list_exports, None, schedules.MOST),
        last=await visit.run(schedules.last_runs),
        every=dict(EVERY),
        what=[(one, one.capitalize()) for one in WHAT],
        formats=FORMAT_TITLES,
        most_customers=schedules.MOST_CUSTOMERS,
        most_events=schedules.MOST_EVENTS,
    )


@pages.post("/exports/download", Needs.MANAGE, "export.downloaded", show_all)
async def send(visit: Visit) -> Response:
    what = visit.form.choice("what", WHAT)
    format = visit.form.choice("format", FORMATS)
    visit.audit(what, format=format)
    name, content = await visit.run(schedules.download, what, format, visit.services.now)
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, headers=headers, media_type=TYPES[format])


@pages.get("/exports/{export_id}")
async def show_one(visit: Visit, export_id: str) -> Response:
    before = visit.query.text("before")
    export = await visit.run(schedules.load_export, export_id)
    start = int(before[:18]) if before.isascii() and before.isdigit() else None
    found = await visit.services.exports.runs(visit.project_id, export_id, start, RUNS + 1)
    older = visit.path("exports", export_id, before=found[RUNS - 1].id) if len(found) > RUNS else None
    return visit.page(
        "export.html",
        export=export,
        runs=found[:RUNS],
        running=export.lease_until > visit.now,
        older=older,
        every=dict(EVERY),
    )


@pages.post("/exports/{export_id}/run", Needs.MANAGE, "export.started", show_one)
async def run(visit: Visit, export_id: str) -> Response:
    whole = visit.form.ticked("whole")
    await visit.services.exports.run_now(visit.project_id, export_id, visit.now, whole=whole)
    visit.audit(whole=whole)
    here = visit.path("exports", export_id)
    return await visit.to(here, "It runs as soon as a process has time. Reload this page to see how far it is.")


@pages.confirmed("/exports/{export_id}/delete", Needs.MANAGE, "export.deleted", show_one)
async def delete(visit: Visit, export_id: str) -> Response:
    export = await visit.run(schedules.load_export, export_id)
    await visit.services.exports.delete(visit.project_id, export.id)
    visit.audit(name=export.name, destination=export.destination)
    return await visit.to(visit.path("exports"), "The export is deleted. What it wrote stays where it is.")
