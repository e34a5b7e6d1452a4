"""The pages of offerings: the list with what each app shows, and one offering with its packages in order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import DecodeError, json

from latchkey.dashboard.form import Form
from latchkey.dashboard.page import Needs, Pages, Response, Visit
from latchkey.domain.catalog import Eligibility, Placement
from latchkey.domain.naming import checked_id, checked_lookup_key, checked_name
from latchkey.domain.refusal import Checks, Invalid
from latchkey.subjects.catalog.usecases import product_catalog
from latchkey.subjects.offerings import usecases
from latchkey.subjects.offerings.rules import USUAL_PACKAGES, Storefront

pages = Pages()

MOST_PRODUCTS = 1000


@dataclass(frozen=True, slots=True)
class OfferingCell:
    """What one app shows of one package, or why it shows nothing."""

    product: str = ""
    reasons: tuple[str, ...] = ()


@pages.get("/catalog/offerings")
async def list_offerings(visit: Visit) -> Response:
    found = await visit.run(usecases.list_offerings, limit=usecases.MOST_OFFERINGS)
    inside = await visit.run(usecases.packages_of, [offering.id for offering in found])
    previews = await usecases.load_previews(visit.services.changes, visit.project_id)
    made_up = not previews.catalog.offerings.sell_anything
    return visit.page("offerings.html", offerings=found, packages=inside, previews=previews, made_up=made_up)


@pages.get("/catalog/new-offering", Needs.MANAGE)
async def offer_new_offering(visit: Visit) -> Response:
    return visit.page("offering_new.html")


@pages.post("/catalog/new-offering", Needs.MANAGE, "offering.created", offer_new_offering)
async def create_offering(visit: Visit) -> Response:
    visit.subject = key = visit.form.text("lookup_key")
    with Checks() as check:
        check(checked_lookup_key, key)
        metadata = check(_metadata, visit.form.text("metadata"))
        name = check(visit.form.name, "display_name", key)
    made = await visit.run(usecases.create_offering, key, name, metadata, now=visit.now)
    visit.audit(made.id, lookup_key=made.lookup_key)
    return await visit.to(
        visit.path("catalog", "offerings", made.id), f"{made.lookup_key} was created. Add packages to it."
    )


@pages.get("/catalog/offerings/{offering_id}")
async def show_offering(visit: Visit, offering_id: str) -> Response:
    offering = await visit.run(usecases.load_offering, offering_id)
    inside = await visit.run(usecases.list_packages, offering_id)
    previews = await usecases.load_previews(visit.services.changes, visit.project_id)
    on_sale = await visit.run(product_catalog.list_products, limit=MOST_PRODUCTS)
    places = await visit.run(usecases.list_placements, limit=usecases.MOST_PLACEMENTS)
    return visit.page(
        "offering.html",
        offering=offering,
        packages=inside,
        products=await visit.run(usecases.products_of, [package.id for package in inside]),
        cells={package.id: cells_of(previews, offering.lookup_key, package.lookup_key) for package in inside},
        apps=[app for app, _ in previews.apps],
        on_sale=[("", "None yet"), *((product.id, product.id) for product in on_sale)],
        usual=USUAL_PACKAGES,
        shown_at=[placement for placement in places if placement.offering_id == offering_id],
        metadata="" if offering.metadata is None else json.format(json.encode(offering.metadata), indent=2).decode(),
    )


@pages.post("/catalog/offerings/{offering_id}", Needs.MANAGE, "offering.updated", show_offering)
async def update_offering(visit: Visit, offering_id: str) -> Response:
    with Checks() as check:
        changes = {
            "display_name": check(checked_name, visit.form.text("display_name"), "display_name"),
            "metadata": check(_metadata, visit.form.text("metadata")),
        }
    await visit.run(usecases.update_offering, offering_id, **changes)
    return await visit.to(visit.path("catalog", "offerings", offering_id), "Saved.")


@pages.post("/catalog/offerings/{offering_id}/current", Needs.MANAGE, "offering.updated", show_offering)
async def make_current(visit: Visit, offering_id: str) -> Response:
    chosen = visit.form.choice("is_current", ("yes", "no")) == "yes"
    visit.audit(is_current=chosen)
    changed = await visit.run(usecases.update_offering, offering_id, is_current=chosen)
    said = "is the current offering." if chosen else "is not the current offering any more. There is none now."
    return await visit.to(visit.path("catalog", "offerings", offering_id), f"{changed.lookup_key} {said}")


@pages.confirmed("/catalog/offerings/{offering_id}/delete", Needs.MANAGE, "offering.deleted", show_offering)
async def delete_offering(visit: Visit, offering_id: str) -> Response:
    await visit.run(usecases.delete_offering, offering_id)
    return await visit.to(visit.path("catalog", "offerings"), "The offering and its packages are deleted.")


@pages.post("/catalog/offerings/{offering_id}/packages", Needs.MANAGE, "package.created", show_offering)
async def add_package(visit: Visit, offering_id: str) -> Response:
    key, product_id = visit.form.text("lookup_key"), visit.form.text("product")
    with Checks() as check:
        check(checked_lookup_key, key)
        name = check(visit.form.name, "package_name", key)
    made = await visit.run(usecases.create_package, offering_id, key, name, now=visit.now)
    visit.audit(made.id, offering=offering_id, lookup_key=made.lookup_key)
    if product_id:
        visit.audit(product=product_id)
        await visit.run(usecases.attach_products, made.id, {product_id: Eligibility.ALL})
    return await visit.to(visit.path("catalog", "offerings", offering_id), f"{made.lookup_key} was added.")


def cells_of(previews: usecases.Previews, offering: str, package: str) -> Sequence[OfferingCell]:
    """For each app, what it shows of this package."""
    return [_cell(front, offering, package) for _, front in previews.apps]


def _cell(front: Storefront, offering: str, package: str) -> OfferingCell:
    for shown_offering in front.offerings:
        for each in shown_offering.packages:
            if (shown_offering.identifier, each.identifier) == (offering, package):
                return OfferingCell(each.product_id + (f":{each.plan_id}" if each.plan_id else ""))
    hidden = (product for product in front.left_out if (product.offering, product.package) == (offering, package))
    return OfferingCell(reasons=tuple(dict.fromkeys(product.reason.value for product in hidden)))


def _metadata(text: str) -> dict[str, Any] | None:
    if not text:
        return None
    try:
        return json.decode(text, type=dict[str, Any])
    except (DecodeError, RecursionError):
        raise Invalid('The metadata is a JSON object, such as {"color": "red"}.', param="metadata") from None


CRITERIA = (
    (Eligibility.ALL, "Every SDK"),
    (Eligibility.NEW_GOOGLE_SDK, "Android SDK 6 and newer"),
    (Eligibility.OLD_GOOGLE_SDK, "Android SDK before 6"),
)


@pages.get("/catalog/packages/{package_id}")
async def show_package(visit: Visit, package_id: str) -> Response:
    package = await visit.run(usecases.load_package, package_id)
    offering = await visit.run(usecases.load_offering, package.offering_id)
    attached = (await visit.run(usecases.products_of, [package_id]))[package_id]
    there = {one.product.id for one in attached}
    on_sale = await visit.run(product_catalog.list_products, limit=MOST_PRODUCTS)
    previews = await usecases.load_previews(visit.services.changes, visit.project_id)
    cells = cells_of(previews, offering.lookup_key, package.lookup_key)
    return visit.page(
        "package.html",
        package=package,
        offering=offering,
        attached=attached,
        choices=[(one.id, f"{one.id} · {one.display_name}") for one in on_sale if one.id not in there],
        criteria=CRITERIA,
        named=dict(CRITERIA),
        shown=list(zip((app for app, _ in previews.apps), cells, strict=True)),
    )


@pages.post("/catalog/packages/{package_id}", Needs.MANAGE, "package.updated", show_package)
async def rename(visit: Visit, package_id: str) -> Response:
    await visit.run(usecases.update_package, package_id, display_name=visit.form.text("display_name"))
    return await visit.to(visit.path("catalog", "packages", package_id), "Saved.")


@pages.post("/catalog/packages/{package_id}/move", Needs.MANAGE, "package.updated", show_package)
async def move(visit: Visit, package_id: str) -> Response:
    position = visit.form.number("position", low=1, high=usecases.MOST_PACKAGES)
    visit.audit(position=position)
    moved = await visit.run(usecases.update_package, package_id, position=position)
    return await visit.to(
        visit.path("catalog", "offerings", moved.offering_id), f"{moved.lookup_key} is number {moved.position} now."
    )


@pages.post("/catalog/packages/{package_id}/attach", Needs.MANAGE, "package.products_attached", show_package)
async def attach(visit: Visit, package_id: str) -> Response:
    product_id = visit.form.text("product")
    criteria = visit.form.choice("eligibility", list(Eligibility), Eligibility.ALL)
    visit.audit(product=product_id, eligibility=criteria)
    await visit.run(usecases.attach_products, package_id, {product_id: criteria})
    return await visit.to(visit.path("catalog", "packages", package_id), f"{product_id} is in the package now.")


@pages.post("/catalog/packages/{package_id}/detach", Needs.MANAGE, "package.products_detached", show_package)
async def detach(visit: Visit, package_id: str) -> Response:
    product_id = visit.form.text("product")
    visit.audit(product=product_id)
    await visit.run(usecases.detach_products, package_id, [product_id])
    return await visit.to(visit.path("catalog", "packages", package_id), f"{product_id} is no longer in the package.")


@pages.confirmed("/catalog/packages/{package_id}/delete", Needs.MANAGE, "package.deleted", show_package)
async def delete_package(visit: Visit, package_id: str) -> Response:
    package = await visit.run(usecases.load_package, package_id)
    await visit.run(usecases.delete_package, package.id)
    return await visit.to(visit.path("catalog", "offerings", package.offering_id), f"{package.lookup_key} was deleted.")


@pages.get("/catalog/placements")
async def list_placements(visit: Visit) -> Response:
    found = await visit.run(usecases.list_placements, limit=usecases.MOST_PLACEMENTS)
    known = await visit.run(usecases.list_offerings, limit=usecases.MOST_OFFERINGS)
    return visit.page("placements.html", placements=found, offerings={offering.id: offering for offering in known})


@pages.get("/catalog/new-placement", Needs.MANAGE)
async def offer_new_placement(visit: Visit) -> Response:
    return await _form(visit, None)


@pages.post("/catalog/new-placement", Needs.MANAGE, "placement.created", offer_new_placement)
async def create_placement(visit: Visit) -> Response:
    visit.subject = id = visit.form.text("id")
    fields = _placement(visit.form)
    with Checks() as check:
        check(checked_id, id)
        fields["display_name"] = check(visit.form.name, "display_name", "") or None
    await visit.run(usecases.create_placement, id, **fields, now=visit.now)
    return await visit.to(visit.path("catalog", "placements"), f"{id} was created. Apps ask for it by this id.")


@pages.get("/catalog/placements/{placement_id}")
async def show_placement(visit: Visit, placement_id: str) -> Response:
    return await _form(visit, await visit.run(usecases.load_placement, placement_id))


@pages.post("/catalog/placements/{placement_id}", Needs.MANAGE, "placement.updated", show_placement)
async def update_placement(visit: Visit, placement_id: str) -> Response:
    await visit.run(usecases.update_placement, placement_id, **_placement(visit.form))
    return await visit.to(visit.path("catalog", "placements"), "Saved.")


def _placement(form: Form) -> dict[str, Any]:
    return {
        "display_name": form.text("display_name"),
        "offering_id": form.text("offering") or None,
        "is_fallback": form.ticked("is_fallback"),
    }


@pages.confirmed("/catalog/placements/{placement_id}/delete", Needs.MANAGE, "placement.deleted", show_placement)
async def delete_placement(visit: Visit, placement_id: str) -> Response:
    await visit.run(usecases.delete_placement, placement_id)
    return await visit.to(visit.path("catalog", "placements"), f"{placement_id} was deleted.")


async def _form(visit: Visit, placement: Placement | None) -> Response:
    known = await visit.run(usecases.list_offerings, limit=usecases.MOST_OFFERINGS)
    choices = [("", "Nothing is offered there"), *((offering.id, offering.lookup_key) for offering in known)]
    return visit.page("placement.html", placement=placement, choices=choices)
