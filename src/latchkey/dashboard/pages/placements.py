"""The pages of placements: which offering the apps show where."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from latchkey.dashboard.page import Needs, Pages, Visit
from latchkey.dashboard.snippets import curl
from latchkey.usecases.catalog import offerings, placements

pages = Pages()


@pages.get("/catalog/placements")
async def list_placements(visit: Visit) -> Response:
    found = await placements.list_placements(visit.database, visit.project_id)
    known = await offerings.list_offerings(visit.database, visit.project_id, limit=offerings.MOST)
    return visit.page(
        "placements.html",
        here="catalog",
        tab="placements",
        placements=found,
        offerings={one.id: one for one in known},
        curl=curl,
    )


@pages.get("/catalog/new-placement", Needs.MANAGE)
async def offer_new(visit: Visit) -> Response:
    return await _form(visit, None)


@pages.post("/catalog/new-placement", Needs.MANAGE, "placement.created", offer_new)
async def create(visit: Visit) -> Response:
    form = visit.form
    visit.subject = id = form.text("id")
    await placements.create_placement(
        visit.database,
        visit.project_id,
        id,
        form.text("display_name") or None,
        form.text("offering") or None,
        is_fallback=form.ticked("is_fallback"),
        now=visit.now,
    )
    return await visit.to(visit.path("catalog", "placements"), f"{id} exists now. Apps ask for it by this id.")


@pages.get("/catalog/placements/{placement_id}")
async def show_placement(visit: Visit) -> Response:
    id = visit.param("placement_id")
    return await _form(visit, await placements.load_placement(visit.database, visit.project_id, id))


@pages.post("/catalog/placements/{placement_id}", Needs.MANAGE, "placement.updated", show_placement)
async def update(visit: Visit) -> Response:
    form, id = visit.form, visit.param("placement_id")
    changes: dict[str, Any] = {
        "display_name": form.text("display_name"),
        "offering_id": form.text("offering") or None,
        "is_fallback": form.ticked("is_fallback"),
    }
    await placements.update_placement(visit.database, visit.project_id, id, changes)
    return await visit.to(visit.path("catalog", "placements"), "Saved.")


@pages.post("/catalog/placements/{placement_id}/delete", Needs.MANAGE, "placement.deleted", show_placement)
async def delete(visit: Visit) -> Response:
    visit.form.confirmed()
    id = visit.param("placement_id")
    await placements.delete_placement(visit.database, visit.project_id, id)
    return await visit.to(visit.path("catalog", "placements"), f"{id} is gone.")


async def _form(visit: Visit, placement: placements.Placement | None) -> Response:
    values = visit.form.values()
    if placement is not None and visit.refusal is None:
        values = {"display_name": placement.display_name, "offering": placement.offering_id or ""}
        if placement.is_fallback:
            values["is_fallback"] = "yes"
    known = await offerings.list_offerings(visit.database, visit.project_id, limit=offerings.MOST)
    choices = [("", "Nothing is offered there"), *((one.id, one.lookup_key) for one in known)]
    return visit.page(
        "placement.html",
        here="catalog",
        placement=placement,
        values=values,
        choices=choices,
    )
