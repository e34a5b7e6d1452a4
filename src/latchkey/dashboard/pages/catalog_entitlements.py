"""The pages of entitlements."""

from __future__ import annotations

from starlette.responses import Response

from latchkey.dashboard.page import Needs, Pages, Visit
from latchkey.dashboard.snippets import curl
from latchkey.usecases.catalog import entitlements

pages = Pages()

ON_A_PAGE = 100


@pages.get("/catalog/entitlements")
async def list_entitlements(visit: Visit) -> Response:
    after = visit.query.text("after") or None
    found = await entitlements.list_entitlements(visit.database, visit.project_id, after=after, limit=ON_A_PAGE + 1)
    shown = found[:ON_A_PAGE]
    more = visit.path("catalog", "entitlements", after=shown[-1].id) if len(found) > ON_A_PAGE else None
    return visit.page(
        "catalog_entitlements.html", here="catalog", tab="entitlements", entitlements=shown, more=more, curl=curl
    )


@pages.get("/catalog/new-entitlement", Needs.MANAGE)
async def offer_new(visit: Visit) -> Response:
    values = {name: visit.form.text(name) for name in ("id", "display_name")}
    return visit.page("catalog_new_entitlement.html", here="catalog", values=values)


@pages.post("/catalog/new-entitlement", Needs.MANAGE, "entitlement.created", offer_new)
async def create(visit: Visit) -> Response:
    form = visit.form
    visit.subject = wanted = form.text("id")
    name = form.text("display_name") or wanted
    made = await entitlements.create_entitlement(visit.database, visit.project_id, wanted, name, visit.now)
    return await visit.to(visit.path("catalog"), f"{made.id} exists now. Tick below which products grant it.")


@pages.get("/catalog/entitlements/{entitlement_id}")
async def show_entitlement(visit: Visit) -> Response:
    id = visit.param("entitlement_id")
    entitlement = await entitlements.load_entitlement(visit.database, visit.project_id, id)
    granting = await entitlements.list_products_of(visit.database, visit.project_id, id)
    return visit.page("catalog_entitlement.html", here="catalog", entitlement=entitlement, products=granting)


@pages.post("/catalog/entitlements/{entitlement_id}", Needs.MANAGE, "entitlement.renamed", show_entitlement)
async def rename(visit: Visit) -> Response:
    id, name = visit.param("entitlement_id"), visit.form.text("display_name")
    await entitlements.rename_entitlement(visit.database, visit.project_id, id, name)
    return await visit.to(visit.path("catalog", "entitlements", id), "Saved.")


@pages.post("/catalog/entitlements/{entitlement_id}/delete", Needs.MANAGE, "entitlement.deleted", show_entitlement)
async def delete(visit: Visit) -> Response:
    visit.form.confirmed()
    id = visit.param("entitlement_id")
    await entitlements.delete_entitlement(visit.database, visit.project_id, id)
    return await visit.to(visit.path("catalog", "entitlements"), f"{id} is gone.")
