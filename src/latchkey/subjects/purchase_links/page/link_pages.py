"""The project's purchase links: each with its address to copy, and a form for a new one."""

from latchkey.dashboard.page import Needs, Pages, Response, Visit
from latchkey.domain.refusal import Invalid
from latchkey.domain.stores.store import store_of
from latchkey.subjects.catalog.usecases.product_catalog import list_products
from latchkey.subjects.offerings import usecases as offerings
from latchkey.subjects.projects.usecases import all_apps
from latchkey.subjects.purchase_links import usecases

pages = Pages()

ON_A_PAGE = 50
MOST_PRODUCTS = 500
PRODUCT, OFFERING = "product:", "offering:"


@pages.get("/purchase-links")
async def list_links(visit: Visit) -> Response:
    found = await visit.run(usecases.list_links, visit.after, ON_A_PAGE + 1)
    shown, more = visit.paged(found, ON_A_PAGE, "purchase-links")
    known = await visit.run(offerings.list_offerings, limit=offerings.MOST_OFFERINGS)
    sold = await visit.run(list_products, limit=MOST_PRODUCTS)
    what = [(f"{OFFERING}{one.id}", f"Offering {one.lookup_key}") for one in known]
    what += [(f"{PRODUCT}{one.id}", f"Product {one.id}") for one in sold]
    apps = [app for app in await visit.run(all_apps) if store_of(app.store).has_payment_pages]
    return visit.page(
        "purchase_links.html",
        links=shown,
        more=more,
        names={one.id: one.lookup_key for one in known},
        start=usecases.public_start(visit.settings.public_url, visit.request.headers.get("host", "")),
        apps=[(app.id, app.name) for app in apps],
        without_deep_link=[app for app in apps if not app.details.get("deep_link")],
        mail=visit.services.mail is not None,
        what=what,
    )


@pages.post("/purchase-links", Needs.MANAGE, "purchase_link.created", list_links)
async def create(visit: Visit) -> Response:
    what = visit.form.needed("what")
    if not what.startswith((PRODUCT, OFFERING)):
        raise Invalid("Choose what the link sells.", param="what")
    product_id = what.removeprefix(PRODUCT) if what.startswith(PRODUCT) else None
    offering_id = what.removeprefix(OFFERING) if product_id is None else None
    made = await visit.run(
        usecases.create_link, visit.form.needed("app_id"), visit.now, product_id=product_id, offering_id=offering_id
    )
    visit.audit(made.id, app=made.app_id, sells=what)
    return await visit.to(visit.path("purchase-links"), "The link sells from now on. Copy its address from the list.")


@pages.confirmed("/purchase-links/{link_id}/archive", Needs.MANAGE, "purchase_link.archived", list_links)
async def archive(visit: Visit, link_id: str) -> Response:
    await visit.run(usecases.archive_link, link_id, visit.now)
    return await visit.to(visit.path("purchase-links"), "Nobody can buy by this link any more.")
