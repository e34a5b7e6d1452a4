"""The pages of offerings: the list with what each app shows, and one offering with its packages in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import DecodeError, json
from starlette.responses import Response

from latchkey.dashboard.page import Needs, Pages, Visit
from latchkey.dashboard.snippets import curl
from latchkey.domain.offering import Eligibility
from latchkey.domain.refusal import Invalid
from latchkey.domain.storefront import USUAL_PACKAGES, Storefront
from latchkey.usecases.catalog import offerings, packages, products
from latchkey.usecases.catalog.offerings import Previews, load_previews
from latchkey.usecases.catalog.placements import list_placements

pages = Pages()

MOST_PRODUCTS = 1000


@dataclass(frozen=True, slots=True)
class Cell:
    """What one app shows of one package, or why it shows nothing."""

    product: str = ""
    reasons: tuple[str, ...] = ()


@pages.get("/catalog/offerings")
async def list_offerings(visit: Visit) -> Response:
    found = await offerings.list_offerings(visit.database, visit.project_id, limit=offerings.MOST)
    inside = await packages.packages_of(visit.database, visit.project_id, [one.id for one in found])
    previews = await load_previews(visit.services.changes, visit.project_id)
    return visit.page(
        "offerings.html",
        here="catalog",
        tab="offerings",
        offerings=found,
        packages=inside,
        previews=previews,
        made_up=not previews.catalog.offerings.sell_anything,
        curl=curl,
    )


@pages.get("/catalog/new-offering", Needs.MANAGE)
async def offer_new(visit: Visit) -> Response:
    return visit.page("offering_new.html", here="catalog", values=visit.form.values())


@pages.post("/catalog/new-offering", Needs.MANAGE, "offering.created", offer_new)
async def create(visit: Visit) -> Response:
    form = visit.form
    visit.subject = key = form.text("lookup_key")
    metadata = _metadata(form.text("metadata"))
    name = form.text("display_name") or key
    made = await offerings.create_offering(visit.database, visit.project_id, key, name, metadata, visit.now)
    visit.audit(made.id, lookup_key=made.lookup_key)
    return await visit.to(
        visit.path("catalog", "offerings", made.id), f"{made.lookup_key} exists now. Add packages to it."
    )


@pages.get("/catalog/offerings/{offering_id}")
async def show_offering(visit: Visit) -> Response:
    id = visit.param("offering_id")
    offering = await offerings.load_offering(visit.database, visit.project_id, id)
    inside = await packages.list_packages(visit.database, visit.project_id, id)
    previews = await load_previews(visit.services.changes, visit.project_id)
    on_sale = await products.list_products(visit.database, visit.project_id, limit=MOST_PRODUCTS)
    shown_at = [one for one in await list_placements(visit.database, visit.project_id) if one.offering_id == id]
    filled = {
        "display_name": offering.display_name,
        "metadata": "" if offering.metadata is None else json.format(json.encode(offering.metadata), indent=2).decode(),
        **visit.form.values(),
    }
    return visit.page(
        "offering.html",
        here="catalog",
        offering=offering,
        packages=inside,
        products=await packages.products_of(visit.database, visit.project_id, [one.id for one in inside]),
        cells={one.id: cells_of(previews, offering.lookup_key, one.lookup_key) for one in inside},
        apps=[app for app, _ in previews.apps],
        on_sale=[("", "None yet"), *((one.id, one.id) for one in on_sale)],
        usual=USUAL_PACKAGES,
        shown_at=shown_at,
        values=filled,
    )


@pages.post("/catalog/offerings/{offering_id}", Needs.MANAGE, "offering.updated", show_offering)
async def update(visit: Visit) -> Response:
    id, form = visit.param("offering_id"), visit.form
    changes = {"display_name": form.text("display_name"), "metadata": _metadata(form.text("metadata"))}
    await offerings.update_offering(visit.database, visit.project_id, id, changes)
    return await visit.to(visit.path("catalog", "offerings", id), "Saved.")


@pages.post("/catalog/offerings/{offering_id}/current", Needs.MANAGE, "offering.updated", show_offering)
async def make_current(visit: Visit) -> Response:
    id = visit.param("offering_id")
    chosen = visit.form.choice("is_current", ("yes", "no")) == "yes"
    visit.audit(is_current=chosen)
    changed = await offerings.update_offering(visit.database, visit.project_id, id, {"is_current": chosen})
    said = "is the current offering." if chosen else "is not the current offering any more. There is none now."
    return await visit.to(visit.path("catalog", "offerings", id), f"{changed.lookup_key} {said}")


@pages.post("/catalog/offerings/{offering_id}/delete", Needs.MANAGE, "offering.deleted", show_offering)
async def delete(visit: Visit) -> Response:
    visit.form.confirmed()
    await offerings.delete_offering(visit.database, visit.project_id, visit.param("offering_id"))
    return await visit.to(visit.path("catalog", "offerings"), "The offering is gone, with its packages.")


@pages.post("/catalog/offerings/{offering_id}/packages", Needs.MANAGE, "package.created", show_offering)
async def add_package(visit: Visit) -> Response:
    id, form = visit.param("offering_id"), visit.form
    key, product_id = form.text("lookup_key"), form.text("product")
    made = await packages.create_package(
        visit.database, visit.project_id, id, key, form.text("package_name") or key, None, visit.now
    )
    visit.audit(made.id, offering=id, lookup_key=made.lookup_key)
    if product_id:
        visit.audit(product=product_id)
        await packages.attach_products(visit.database, visit.project_id, made.id, {product_id: Eligibility.ALL})
    return await visit.to(visit.path("catalog", "offerings", id), f"{made.lookup_key} was added.")


def cells_of(previews: Previews, offering: str, package: str) -> Sequence[Cell]:
    """For each app, what it shows of this package."""
    return [_cell(front, offering, package) for _, front in previews.apps]


def _cell(front: Storefront, offering: str, package: str) -> Cell:
    for one in front.offerings:
        for each in one.packages:
            if (one.identifier, each.identifier) == (offering, package):
                return Cell(each.product_id + (f":{each.plan_id}" if each.plan_id else ""))
    reasons = (one.reason.value for one in front.left_out if (one.offering, one.package) == (offering, package))
    return Cell(reasons=tuple(dict.fromkeys(reasons)))


def _metadata(text: str) -> dict[str, Any] | None:
    if not text:
        return None
    try:
        return json.decode(text, type=dict[str, Any])
    except (DecodeError, RecursionError):
        raise Invalid('The metadata is a JSON object, such as {"color": "red"}.', param="metadata") from None
