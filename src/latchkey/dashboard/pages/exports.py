"""Exports that run by themselves: the list, one export with its runs, and small downloads."""

from __future__ import annotations

from starlette.responses import Response

from latchkey.dashboard.page import Needs, Pages, Visit
from latchkey.dashboard.pages.export_setup import EVERY
from latchkey.usecases.exports.download import MOST_CUSTOMERS, MOST_EVENTS, download
from latchkey.usecases.exports.engine import WHAT
from latchkey.usecases.exports.formats import FORMATS
from latchkey.usecases.exports.schedules import MOST
from latchkey.usecases.rendering import exports as render

pages = Pages()

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
