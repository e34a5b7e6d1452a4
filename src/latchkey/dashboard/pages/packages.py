"""The page of one package: its place in the offering, and its product in each app."""

from __future__ import annotations

from starlette.responses import Response

from latchkey.dashboard.page import Needs, Pages, Visit
from latchkey.dashboard.pages.offerings import MOST_PRODUCTS, cells_of
from latchkey.domain.offering import Eligibility
from latchkey.usecases.catalog import offerings, packages, products
from latchkey.usecases.catalog.offerings import load_previews

pages = Pages()

CRITERIA = (
    (Eligibility.ALL, "Every SDK"),
    (Eligibility.NEW_GOOGLE_SDK, "Android SDK 6 and newer"),
    (Eligibility.OLD_GOOGLE_SDK, "Android SDK before 6"),
)


@pages.get("/catalog/packages/{package_id}")
async def show_package(visit: Visit) -> Response:
    id = visit.param("package_id")
    package = await packages.load_package(visit.database, visit.project_id, id)
    offering = await offerings.load_offering(visit.database, visit.project_id, package.offering_id)
    attached = (await packages.products_of(visit.database, visit.project_id, [id]))[id]
    there = {one.product.id for one in attached}
    on_sale = await products.list_products(visit.database, visit.project_id, limit=MOST_PRODUCTS)
    previews = await load_previews(visit.services.changes, visit.project_id)
    cells = cells_of(previews, offering.lookup_key, package.lookup_key)
    return visit.page(
        "package.html",
        here="catalog",
        package=package,
        offering=offering,
        attached=attached,
        choices=[(one.id, f"{one.id} · {one.display_name}") for one in on_sale if one.id not in there],
        criteria=CRITERIA,
        named=dict(CRITERIA),
        shown=list(zip((app for app, _ in previews.apps), cells, strict=True)),
    )


@pages.post("/catalog/packages/{package_id}", Needs.MANAGE, "package.updated", show_package)
async def rename(visit: Visit) -> Response:
    id = visit.param("package_id")
    await packages.update_package(visit.database, visit.project_id, id, display_name=visit.form.text("display_name"))
    return await visit.to(visit.path("catalog", "packages", id), "Saved.")


@pages.post("/catalog/packages/{package_id}/move", Needs.MANAGE, "package.updated", show_package)
async def move(visit: Visit) -> Response:
    id, position = visit.param("package_id"), visit.form.number("position", low=1, high=packages.MOST)
    visit.audit(position=position)
    moved = await packages.update_package(visit.database, visit.project_id, id, position=position)
    return await visit.to(
        visit.path("catalog", "offerings", moved.offering_id), f"{moved.lookup_key} is number {moved.position} now."
    )


@pages.post("/catalog/packages/{package_id}/attach", Needs.MANAGE, "package.products_attached", show_package)
async def attach(visit: Visit) -> Response:
    id, product_id = visit.param("package_id"), visit.form.text("product")
    criteria = Eligibility(visit.form.choice("eligibility", list(Eligibility), Eligibility.ALL))
    visit.audit(product=product_id, eligibility=criteria)
    await packages.attach_products(visit.database, visit.project_id, id, {product_id: criteria})
    return await visit.to(visit.path("catalog", "packages", id), f"{product_id} is in the package now.")


@pages.post("/catalog/packages/{package_id}/detach", Needs.MANAGE, "package.products_detached", show_package)
async def detach(visit: Visit) -> Response:
    id, product_id = visit.param("package_id"), visit.form.text("product")
    visit.audit(product=product_id)
    await packages.detach_products(visit.database, visit.project_id, id, [product_id])
    return await visit.to(visit.path("catalog", "packages", id), f"{product_id} is no longer in the package.")


@pages.post("/catalog/packages/{package_id}/delete", Needs.MANAGE, "package.deleted", show_package)
async def delete(visit: Visit) -> Response:
    visit.form.confirmed()
    package = await packages.load_package(visit.database, visit.project_id, visit.param("package_id"))
    await packages.delete_package(visit.database, visit.project_id, package.id)
    return await visit.to(visit.path("catalog", "offerings", package.offering_id), f"{package.lookup_key} is gone.")
