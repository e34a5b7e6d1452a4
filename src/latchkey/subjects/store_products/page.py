"""From the store: what an app's store has for sale beside the catalog, with a box to take each product over."""

from latchkey.dashboard.page import Needs, Pages, Response, Visit
from latchkey.domain.refusal import Invalid, NotFound, Refusal
from latchkey.subjects.projects import usecases as projects
from latchkey.subjects.store_products import render, rules, usecases

pages = Pages()


@pages.get("/catalog/from-store")
async def show(visit: Visit) -> Response:
    stores = visit.services.stores
    apps = [app for app in await visit.run(projects.all_apps) if app.store in stores.adapters]
    wanted = visit.form.text("app") or visit.query.text("app")
    app = next((app for app in apps if app.id == wanted), None) if wanted else next(iter(apps), None)
    if app is None and wanted:
        raise NotFound(f"There is no app {wanted!r} in this project that is connected to a store.", param="app")
    found: tuple[rules.Compared, ...] = ()
    error = visit.refusal.message if visit.refusal else ""
    try:
        found = await usecases.list_products(stores, visit.project_id, app.id) if app is not None else ()
    except Refusal as refusal:
        # The store's answer is what this page is about.
        error = refusal.message
    ticked = visit.form.all("product") if visit.refusal else [one.id for one in found if one.status == "new"]
    return visit.page(
        "catalog_from_store.html",
        apps=apps,
        choices=[(one.id, f"{one.name} · {projects.TITLES[one.store]}") for one in apps],
        app=app,
        titles=projects.TITLES,
        error=error,
        answered=bool(found) or not error,
        ticked=frozenset(ticked),
        found=found,
        in_words=render.in_words,
        fields=render.FIELDS,
    )


@pages.post("/catalog/from-store", Needs.MANAGE, "store_products.taken_over", show)
async def take_over(visit: Visit) -> Response:
    app_id, ids = visit.form.needed("app"), visit.form.all("product")
    if not ids:
        raise Invalid("Tick the products that you want to take over.", param="product")
    visit.audit(app_id, product_ids=ids)
    made = await usecases.take_over(visit.services.stores, visit.project_id, app_id, ids, visit.now)
    done = render.takeover(app_id, made)
    if not made:
        return await visit.to(
            visit.path("catalog", "from-store", app=app_id), "The catalog has them as the store does."
        )
    words = f"{len(done.created)} products are new in the catalog, and {len(done.updated)} were changed."
    return await visit.to(
        visit.path("catalog"), f"{words} Tick below what they grant: until then, they grant no more than before."
    )
