"""Apps: the project's apps in stores, and the public keys that ship inside them."""

from latchkey.dashboard.connection_view import shown_connection
from latchkey.dashboard.links import first_purchase
from latchkey.dashboard.page import Needs, Pages, Response, Visit
from latchkey.domain.customers.identity import RestoreBehavior
from latchkey.domain.naming import checked_name
from latchkey.domain.refusal import Checks, NotFound
from latchkey.domain.stores.store import store_of
from latchkey.domain.time_zones import time_zones
from latchkey.engine.storage.catalog import app_rows as rules
from latchkey.settings import control_urls
from latchkey.subjects.api_keys import usecases as api_keys
from latchkey.subjects.projects import usecases
from latchkey.subjects.purchase_intake.usecases.journal import standing_of

pages = Pages()

ON_A_PAGE = 100
STORES = usecases.TITLES


@pages.get("/apps")
async def list_apps(visit: Visit) -> Response:
    found = await visit.run(usecases.list_apps, visit.after, ON_A_PAGE + 1)
    shown, more = visit.paged(found, ON_A_PAGE, "apps")
    return visit.page(
        "apps.html",
        apps=shown,
        stores=STORES,
        more=more,
        problems=(await standing_of(visit.services.stores, visit.project_id)).problems,
    )


@pages.get("/apps/new", Needs.MANAGE)
async def offer_new(visit: Visit) -> Response:
    return visit.page("app_new.html", stores=list(STORES.items()))


@pages.post("/apps/new", Needs.MANAGE, "app.created", offer_new)
async def create(visit: Visit) -> Response:
    with Checks() as check:
        store = check(visit.form.choice, "store", list(STORES))
        name = check(checked_name, visit.form.text("name"))
    made = await visit.run(usecases.create_app, name, store, visit.now)
    visit.audit(made.id, name=made.name, store=store)
    issued = await visit.run(api_keys.create_public_key, made.id, made.name, visit.now)
    visit.audit(key=issued.key.id)
    return _shown_once(visit, issued, made)


@pages.get("/apps/{app_id}")
async def show_app(visit: Visit, app_id: str) -> Response:
    app = await visit.run(usecases.load_app, app_id)
    found = await visit.run(api_keys.list_keys, visit.after, ON_A_PAGE + 1, app_id=app.id)
    shown, more = visit.paged(found, ON_A_PAGE, "apps", app.id)
    return visit.page(
        "app.html",
        app=app,
        store=STORES[app.store],
        store_emulator=(visit.project_id, app.id) in control_urls(visit.settings.store_emulators),
        connection=await shown_connection(visit, app),
        error_here=visit.refusal is not None,
        keys=shown,
        more=more,
        sells_on_pages=store_of(app.store).has_payment_pages,
        deep_link=app.details.get("deep_link") or "",
        rate_limit=api_keys.RATE_LIMIT,
    )


@pages.post("/apps/{app_id}/keys", Needs.MANAGE, "app.key_created", show_app)
async def create_key(visit: Visit, app_id: str) -> Response:
    app = await visit.run(usecases.load_app, app_id)
    with Checks() as check:
        limit = check(visit.form.number, "rate_limit", api_keys.RATE_LIMIT, low=1, high=api_keys.FASTEST)
        name = check(checked_name, visit.form.text("name") or app.name)
    issued = await visit.run(api_keys.create_public_key, app_id, name, visit.now, rate_limit=limit)
    visit.audit(key=issued.key.id, name=issued.key.name)
    return _shown_once(visit, issued, app)


@pages.confirmed("/apps/{app_id}/keys/{key_id}/revoke", Needs.MANAGE, "app.key_revoked", show_app)
async def revoke_key(visit: Visit, app_id: str, key_id: str) -> Response:
    if (await visit.run(api_keys.load_key, key_id)).app_id != app_id:
        raise NotFound(f"{app_id} has no key {key_id}.", param="key_id")
    await visit.run(api_keys.revoke_key, key_id, visit.now)
    return await visit.to(visit.path("apps", app_id), "The key is revoked. Apps that use it are refused.")


@pages.post("/apps/{app_id}/deep-link", Needs.MANAGE, "app.changed", show_app)
async def set_deep_link(visit: Visit, app_id: str) -> Response:
    link = visit.form.text("deep_link") or None
    visit.audit(app_id, deep_link=link)
    await visit.run(usecases.update_app, app_id, name=None, details={"deep_link": link})
    return await visit.to(visit.path("apps", app_id), "Saved.")


@pages.confirmed("/apps/{app_id}/delete", Needs.MANAGE, "app.deleted", show_app)
async def delete(visit: Visit, app_id: str) -> Response:
    app = await visit.run(usecases.load_app, app_id)
    visit.audit(name=app.name)
    await visit.run(usecases.delete_app, app.id)
    return await visit.to(visit.path("apps"), "The app and its keys are deleted. Purchases made in it stay.")


def _shown_once(visit: Visit, issued: api_keys.IssuedKey, app: rules.App) -> Response:
    return visit.page("key_once.html", 201, here="apps", issued=issued, app=app, back=visit.path("apps", app.id))


BEHAVIORS = {
    RestoreBehavior.TRANSFER: "It moves to the customer who restores it, and leaves the customer who had it.",
    RestoreBehavior.KEEP: "It stays where it is. Other customers who restore it are refused.",
    RestoreBehavior.TRANSFER_IF_NO_ACTIVE_SUBSCRIPTIONS: (
        "It moves to the customer who restores it, unless its owner has a subscription that is running."
    ),
}
TEST_STORES: dict[rules.TestStore, str] = {
    "open": (
        "Test purchases can be made: by the API, on test clocks, and by every app with a public key that begins with "
        "test_. They give real access, are always marked as sandbox, and cost nothing. Close it before you ship."
    ),
    "closed": "No test purchase can be made, and none is renewed. What was bought before runs out.",
}


@pages.get("/settings")
async def show_settings(visit: Visit) -> Response:
    assert visit.project is not None
    host = visit.request.headers.get("host", "localhost")
    base = f"https://{host}"
    hook = {"name": "My server", "url": "https://app.example.com/webhooks/latchkey"}
    return visit.page(
        "settings.html",
        behaviors=BEHAVIORS,
        test_stores=TEST_STORES,
        time_zones=[(name, name) for name in time_zones()],
        base=base,
        read=visit.curl("/v1/subscribers/alice"),
        buy=await first_purchase(visit),
        hook=visit.curl("integrations/webhooks", hook),
        user=f"latchkey user create them@example.com --project {visit.project_id} --role viewer",
    )


@pages.post("/settings", Needs.MANAGE, "project.changed", show_settings)
async def change_settings(visit: Visit) -> Response:
    assert visit.project is not None
    visit.audit(visit.project_id)
    with Checks() as check:
        name = check(checked_name, visit.form.text("name"))
        behavior = check(visit.form.choice, "restore_behavior", list(RestoreBehavior))
        test_store = check(visit.form.choice, "test_store", list(TEST_STORES))
    changed = await visit.run(
        usecases.update_project,
        name=name,
        restore_behavior=behavior,
        test_store=test_store,
        time_zone=visit.form.text("time_zone", visit.project.time_zone),
    )
    before = {name: getattr(visit.project, name) for name in ("name", "restore_behavior", "test_store", "time_zone")}
    after = {name: getattr(changed, name) for name in before}
    visit.detail.update({name: [before[name], after[name]] for name in before if before[name] != after[name]})
    return await visit.to(visit.path("settings"), "Saved.")
