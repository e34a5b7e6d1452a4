"""An app's connection to its store: set-up, credentials, and the notification URL."""

from starlette.responses import Response

from latchkey.dashboard import store_form
from latchkey.dashboard.connection_view import shown_connection
from latchkey.dashboard.page import Needs, Pages, Visit
from latchkey.domain.refusal import NotFound
from latchkey.domain.stores.store import APP_STORE
from latchkey.stores.adapters import CREDENTIAL_FORMS
from latchkey.subjects.projects import usecases as projects
from latchkey.subjects.purchase_intake.usecases import store_connections

pages = Pages()


@pages.get("/apps/{app_id}/setup")
async def show_setup(visit: Visit) -> Response:
    app = await projects.load_app(visit.database, visit.project_id, visit.param("app_id"))
    connection = await shown_connection(visit, app)
    if connection is None:
        raise NotFound("Apps of this store need no set-up.", param="app_id")
    host = visit.request.headers.get("host", "")
    fields = CREDENTIAL_FORMS[app.store].fields
    return visit.page(
        f"setup_{app.store}.html",
        here="apps",
        app=app,
        store=projects.TITLES[app.store],
        connection=connection,
        fields=[field for field in fields if not field.emulator],
        # Other hosts than the store's own are for the operator to allow.
        emulator_fields=[field for field in fields if field.emulator] if visit.settings.store_allow_hosts else [],
        values=store_form.filled(fields, visit.form, connection["row"].shown, host=host, app_id=app.id),
        audience=f"https://{host}/{app.id}",
        event_types=store_connections.STRIPE_EVENTS,
    )


@pages.post("/apps/{app_id}/credentials", Needs.MANAGE, "app.credentials_saved", show_setup)
async def save(visit: Visit) -> Response:
    app = await projects.load_app(visit.database, visit.project_id, visit.param("app_id"))
    if app.store not in CREDENTIAL_FORMS:
        raise NotFound("Apps of this store need no credentials.", param="app_id")
    given = store_form.read(CREDENTIAL_FORMS[app.store].fields, visit.form)
    saved = await store_connections.save(visit.services.stores, visit.project_id, app.id, given)
    visit.audit(check=saved.row.check_result)
    title = projects.TITLES[app.store]
    words, kind = {
        "ok": (f"The credentials are saved, and the {title} accepts them.", "done"),
        "refused": (f"The credentials are saved, but the {title} refuses them. {saved.row.check_message}", "refused"),
        "unknown": (f"The credentials are saved. {saved.row.check_message}", "warn"),
    }[saved.row.check_result]
    return await visit.to(visit.path("apps", app.id), words, kind)


@pages.post("/apps/{app_id}/credentials/check", Needs.MANAGE, "app.credentials_checked")
async def check(visit: Visit) -> Response:
    checked = await store_connections.check(visit.services.stores, visit.project_id, visit.param("app_id"))
    visit.audit(check=checked.row.check_result)
    title = projects.TITLES[checked.row.store]
    words, kind = {
        "ok": (f"The {title} accepts the credentials.", "done"),
        "refused": (f"The {title} refuses the credentials. {checked.row.check_message}", "refused"),
        "unknown": (checked.row.check_message, "warn"),
    }[checked.row.check_result]
    if checked.row.store == APP_STORE and checked.row.check_result == "ok":
        words += " If Apple knows the notification URL, it sends a test notification now."
    return await visit.to(visit.path("apps", visit.param("app_id")), words, kind)


@pages.post("/apps/{app_id}/credentials/delete", Needs.MANAGE, "app.credentials_deleted")
async def delete(visit: Visit) -> Response:
    visit.form.confirmed()
    await store_connections.delete(visit.services.stores, visit.project_id, visit.param("app_id"))
    words = "The credentials are deleted. Notifications and receipts are refused until new credentials are saved."
    return await visit.to(visit.path("apps", visit.param("app_id")), words, "warn")


@pages.post("/apps/{app_id}/notification-url/rotate", Needs.MANAGE, "app.notification_url_rotated")
async def rotate(visit: Visit) -> Response:
    visit.form.confirmed()
    await store_connections.rotate_url(visit.services.stores, visit.project_id, visit.param("app_id"))
    words = "There is a new notification URL. Give it to the store within 7 days: until then the old URL works too."
    return await visit.to(visit.path("apps", visit.param("app_id")), words)
