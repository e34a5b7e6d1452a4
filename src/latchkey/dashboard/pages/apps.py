"""Apps: the project's apps in stores, and the public keys that ship inside them."""

from __future__ import annotations

from starlette.responses import Response

from latchkey.dashboard.page import Needs, Pages, Visit
from latchkey.dashboard.pages.app_stores import shown_connection
from latchkey.dashboard.pages.pretend_store import has_pretend_store
from latchkey.dashboard.snippets import curl
from latchkey.domain.refusal import NotFound
from latchkey.usecases.access import keys, projects
from latchkey.usecases.stores.standing import standing_of

pages = Pages()

ON_A_PAGE = 100
STORES = projects.TITLES


@pages.get("/apps")
async def list_apps(visit: Visit) -> Response:
    after = visit.query.text("after") or None
    found = await projects.list_apps(visit.database, visit.project_id, after=after, limit=ON_A_PAGE + 1)
    shown = found[:ON_A_PAGE]
    more = visit.path("apps", after=shown[-1].id) if len(found) > ON_A_PAGE else None
    return visit.page(
        "apps.html",
        here="apps",
        apps=shown,
        stores=STORES,
        more=more,
        after=after,
        curl=curl,
        standing=await standing_of(visit.services.stores, visit.project_id),
    )


@pages.get("/apps/new", Needs.MANAGE)
async def offer_new(visit: Visit) -> Response:
    values = {name: visit.form.text(name) for name in ("name", "store")}
    return visit.page("app_new.html", here="apps", values=values, stores=list(STORES.items()))


@pages.post("/apps/new", Needs.MANAGE, "app.created", offer_new)
async def create(visit: Visit) -> Response:
    form = visit.form
    store = form.choice("store", list(STORES))
    made = await projects.create_app(visit.database, visit.project_id, form.text("name"), store, visit.now)
    visit.audit(made.id, name=made.name, store=store)
    issued = await keys.create_public_key(visit.database, visit.project_id, made.id, made.name, visit.now)
    visit.audit(key=issued.key.id)
    return _shown_once(visit, issued, made)


@pages.get("/apps/{app_id}")
async def show_app(visit: Visit) -> Response:
    app = await projects.load_app(visit.database, visit.project_id, visit.param("app_id"))
    after = visit.query.text("after") or None
    found = await keys.list_keys(visit.database, visit.project_id, app_id=app.id, after=after, limit=ON_A_PAGE + 1)
    shown = found[:ON_A_PAGE]
    return visit.page(
        "app.html",
        here="apps",
        app=app,
        store=STORES[app.store],
        pretend_store=has_pretend_store(visit, app.id),
        connection=await shown_connection(visit, app),
        error_here=visit.refusal is not None,
        keys=shown,
        more=visit.path("apps", app.id, after=shown[-1].id) if len(found) > ON_A_PAGE else None,
        values={"name": visit.form.text("name"), "rate_limit": visit.form.text("rate_limit", str(keys.RATE_LIMIT))},
    )


@pages.post("/apps/{app_id}/keys", Needs.MANAGE, "app.key_created", show_app)
async def create_key(visit: Visit) -> Response:
    app_id, form = visit.param("app_id"), visit.form
    app = await projects.load_app(visit.database, visit.project_id, app_id)
    limit = form.number("rate_limit", keys.RATE_LIMIT, low=1, high=keys.FASTEST)
    name = form.text("name") or app.name
    issued = await keys.create_public_key(visit.database, visit.project_id, app_id, name, visit.now, rate_limit=limit)
    visit.audit(key=issued.key.id, name=issued.key.name)
    return _shown_once(visit, issued, app)


@pages.post("/apps/{app_id}/keys/{key_id}/revoke", Needs.MANAGE, "app.key_revoked", show_app)
async def revoke_key(visit: Visit) -> Response:
    visit.form.confirmed()
    app_id, key_id = visit.param("app_id"), visit.param("key_id")
    if (await keys.load_key(visit.database, visit.project_id, key_id)).app_id != app_id:
        raise NotFound(f"{app_id} has no key {key_id}.", param="key_id")
    await keys.revoke_key(visit.database, visit.project_id, key_id, visit.now)
    return await visit.to(visit.path("apps", app_id), "The key is revoked. Apps that use it are refused.")


@pages.post("/apps/{app_id}/delete", Needs.MANAGE, "app.deleted", show_app)
async def delete(visit: Visit) -> Response:
    visit.form.confirmed()
    app = await projects.load_app(visit.database, visit.project_id, visit.param("app_id"))
    visit.audit(name=app.name)
    await projects.delete_app(visit.database, visit.project_id, app.id)
    return await visit.to(visit.path("apps"), "The app and its keys are gone. What was bought in it stays.")


def _shown_once(visit: Visit, issued: keys.IssuedKey, app: projects.App) -> Response:
    return visit.page("key_once.html", 201, here="apps", issued=issued, app=app, back=visit.path("apps", app.id))
