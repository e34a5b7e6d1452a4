"""Catalog: which products grant which entitlements, changed in a grid after a preview of who is affected."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlencode

from starlette.responses import Response

from latchkey.dashboard.counting import counts_of, place_of, written
from latchkey.dashboard.form import Form
from latchkey.dashboard.page import Needs, Pages, Visit
from latchkey.dashboard.snippets import curl
from latchkey.domain.access.remapping import Grant, Remapping, difference
from latchkey.domain.refusal import Invalid
from latchkey.usecases.catalog.mapping import (
    ChangedMeanwhile,
    Preview,
    load_grid,
    preview_mapping,
    require_possible,
    save_mapping,
)

pages = Pages()

# A change is part of the preview's URL, so that a reload or a continued count changes nothing.
MOST_AT_ONCE = 200
MEANWHILE = (
    "Somebody changed the catalog meanwhile, so nothing was saved. This is how it is now, with your own changes in it "
    "again. Look at them and go on."
)


@pages.get("/catalog")
async def show_mapping(visit: Visit) -> Response:
    return await _grid(visit)


@pages.post("/catalog/mapping", Needs.MANAGE, "catalog.mapping_proposed")
async def propose(visit: Visit) -> Response:
    form = visit.form
    change = difference(_grants(form.all("had")), _grants(form.all("grant")))
    if not change:
        return await visit.to(visit.path("catalog"), "Nothing was changed, so there is nothing to save.")
    if len(change) > MOST_AT_ONCE:
        raise Invalid(f"That is too much at once. Save in steps of up to {MOST_AT_ONCE} changes.", param="grant")
    version = form.number("version")
    grid = await load_grid(visit.database, visit.project_id)
    if grid.version != version:
        return await _grid(visit, 409, MEANWHILE, change)
    require_possible(grid, change)
    visit.audit("mapping", **_said(change))
    return await visit.to(_preview_path(visit, change, version))


@pages.get("/catalog/preview", Needs.MANAGE)
async def show_preview(visit: Visit) -> Response:
    change, version = _change(visit.query), visit.query.number("version")
    if not change:
        return await visit.to(visit.path("catalog"))
    require_possible(await load_grid(visit.database, visit.project_id), change)
    so_far = Preview(counts_of(visit.query, "gains"), counts_of(visit.query, "losses"), place_of(visit.query))
    try:
        preview = await preview_mapping(
            visit.database, visit.services.catalogs, visit.project_id, change, version, visit.now, so_far
        )
    except ChangedMeanwhile:
        return await _grid(visit, 409, MEANWHILE, change)
    more = None if preview.place.done else _preview_path(visit, change, version, preview)
    return visit.page(
        "catalog_preview.html", here="catalog", change=change, version=version, preview=preview, more=more
    )


@pages.post("/catalog/mapping/save", Needs.MANAGE, "catalog.mapping_changed")
async def save(visit: Visit) -> Response:
    change, version = _change(visit.form), visit.form.number("version")
    visit.audit("mapping", **_said(change))
    if change.detached:
        visit.form.confirmed()
    try:
        await save_mapping(visit.database, visit.project_id, change, version, visit.now)
    except ChangedMeanwhile:
        return await _grid(visit, 409, MEANWHILE, change)
    return await visit.to(visit.path("catalog"), "Saved. Customers hold what the grid says from their next request on.")


async def _grid(visit: Visit, status: int = 200, error: str = "", change: Remapping | None = None) -> Response:
    grid = await load_grid(visit.database, visit.project_id)
    change = change or Remapping()
    on_sale = {one.id for one in grid.products if one.on_sale}
    known = {one.id for one in grid.entitlements}
    possible = {one for one in change.attached if one.product_id in on_sale and one.entitlement_id in known}
    wanted = {(one.product_id, one.entitlement_id) for one in (grid.grants - change.detached) | possible}
    return visit.page(
        "catalog.html", status, here="catalog", tab="mapping", grid=grid, error=error, wanted=wanted, curl=curl
    )


def _preview_path(visit: Visit, change: Remapping, version: int, so_far: Preview | None = None) -> str:
    query = [("version", str(version))]
    query += [("attach", cell(one)) for one in sorted(change.attached)]
    query += [("detach", cell(one)) for one in sorted(change.detached)]
    if so_far is not None:
        query += written(so_far.place, gains=so_far.gains, losses=so_far.losses)
    return f"{visit.path('catalog', 'preview')}?{urlencode(query)}"


def cell(grant: Grant) -> str:
    """One box of the grid as a form sends it. Ids never contain the separator."""
    return f"{grant.product_id}|{grant.entitlement_id}"


def _change(form: Form) -> Remapping:
    return Remapping(_grants(form.all("attach")), _grants(form.all("detach")))


def _grants(texts: Iterable[str]) -> frozenset[Grant]:
    found = set()
    for text in texts:
        product_id, sign, entitlement_id = text.partition("|")
        if not sign:
            raise Invalid("A box of the grid is a product and an entitlement.", param="grant")
        found.add(Grant(product_id, entitlement_id))
    return frozenset(found)


def _said(change: Remapping) -> dict[str, list[str]]:
    return {
        "attached": [f"{one.product_id} grants {one.entitlement_id}" for one in sorted(change.attached)],
        "detached": [f"{one.product_id} no longer grants {one.entitlement_id}" for one in sorted(change.detached)],
    }
