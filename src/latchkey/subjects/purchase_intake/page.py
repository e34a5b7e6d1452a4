"""The journal of what stores and phones sent, and an app's connection to its store: set-up, credentials, the
notification URL."""

from functools import partial

from latchkey.dashboard import store_form, texts
from latchkey.dashboard.connection_view import shown_connection
from latchkey.dashboard.form import Form
from latchkey.dashboard.links import address
from latchkey.dashboard.page import Needs, Pages, Response, Visit
from latchkey.domain.instants import DAY
from latchkey.domain.refusal import Invalid, NotFound
from latchkey.domain.stores.store import APP_STORE
from latchkey.stores.adapters import CREDENTIAL_FORMS
from latchkey.subjects.projects import usecases as projects
from latchkey.subjects.purchase_intake.rules import JournalEntry, JournalFilter, Status, opened
from latchkey.subjects.purchase_intake.usecases import journal, store_connections

pages = Pages()

ON_A_PAGE = 50
STATUSES: tuple[Status, ...] = ("waiting", "applied", "ignored", "failed")
FILTERS = ("app", "status", "kind", "purchase", "since", "until")
MOST_APPS = 200


@pages.get("/journal")
async def show_journal(visit: Visit) -> Response:
    asked = visit.query
    after = asked.text("after") or None
    found = await visit.run(journal.page, read_filter(asked), after=after, limit=ON_A_PAGE + 1)
    kept = {name: asked.text(name) for name in FILTERS}
    shown = found[:ON_A_PAGE]
    older = None
    if len(found) > ON_A_PAGE:
        older = visit.path("journal", **kept, after=journal.name_of(shown[-1]))
    return visit.page(
        "journal.html",
        entries=shown,
        name_of=journal.name_of,
        subject_of=partial(journal.subject_of, trusted=visit.may(Needs.MANAGE)),
        customer_at=await customer_links(visit, shown),
        apps=await visit.run(projects.list_apps, limit=MOST_APPS),
        statuses=STATUSES,
        kept=kept,
        filtered=any(kept.values()) or bool(asked.text("after")),
        older=older,
        standing=await journal.standing_of(visit.services.stores, visit.project_id),
        yesterday=texts.typed(visit.now - DAY),
    )


@pages.post("/journal/reprocess", Needs.MANAGE, "store_notifications.reprocessed", show_journal)
async def reprocess_since(visit: Visit) -> Response:
    form = visit.form
    form.confirmed()
    since = form.instant("since")
    if since is None:
        raise Invalid("Give the start time.", param="since")
    status, app_id = form.choice("status", ("failed", "all")), form.text("app") or None
    if app_id is not None:
        await visit.run(projects.load_app, app_id)
    wanted: Status | None = "failed" if status == "failed" else None
    count = await visit.run(journal.reprocess_since, since, wanted, app_id, visit.now)
    visit.audit("store notifications", since_ms=since, status=status, app=app_id, count=count)
    words = "There is nothing to process again." if not count else f"{texts.number(count)} entries are processed again."
    return await visit.to(visit.path("journal", status="" if count else status), words)


@pages.get("/journal/{notification_id}")
async def show_entry(visit: Visit, notification_id: str) -> Response:
    found = await visit.run(journal.load, notification_id)
    # What the payload holds can be shown as a receipt, which may move a purchase to another customer.
    trusted = visit.may(Needs.MANAGE)
    apps = await visit.run(projects.list_apps, limit=MOST_APPS)
    return visit.page(
        "journal_entry.html",
        entry=found,
        id=journal.name_of(found),
        app_name=next((app.name for app in apps if app.id == found.app_id), None),
        subject=journal.subject_of(found, trusted=trusted),
        payload=found.payload if trusted else None,
        opened=opened(found.payload) if trusted else None,
        customer_at=await customer_links(visit, [found]),
    )


@pages.post("/journal/{notification_id}/reprocess", Needs.MANAGE, "store_notification.reprocessed")
async def reprocess(visit: Visit, notification_id: str) -> Response:
    found = await visit.run(journal.reprocess, notification_id, visit.now)
    return await visit.to(visit.path("journal", journal.name_of(found)), "It is processed again.")


async def customer_links(visit: Visit, entries: list[JournalEntry]) -> dict[str, str]:
    """By app user id. An id that no customer has is shown without a link."""
    known = await visit.run(journal.known_customers, entries)
    return {id: address(visit, id) for id in known}


def read_filter(asked: Form) -> JournalFilter:
    since, until = asked.span()
    return JournalFilter(
        app_id=asked.text("app") or None,
        status=asked.chosen("status", STATUSES),
        kind=asked.text("kind")[:200] or None,
        subject=asked.text("purchase")[:200] or None,
        since=since,
        until=until,
    )


@pages.get("/apps/{app_id}/setup")
async def show_setup(visit: Visit, app_id: str) -> Response:
    app = await visit.run(projects.load_app, app_id)
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
        values=store_form.filled(fields, connection["row"].shown, host=host, app_id=app.id),
        audience=f"https://{host}/{app.id}",
        event_types=store_connections.STRIPE_EVENTS,
    )


@pages.post("/apps/{app_id}/credentials", Needs.MANAGE, "app.credentials_saved", show_setup)
async def save(visit: Visit, app_id: str) -> Response:
    app = await visit.run(projects.load_app, app_id)
    if app.store not in CREDENTIAL_FORMS:
        raise NotFound("Apps of this store need no credentials.", param="app_id")
    given = store_form.read(CREDENTIAL_FORMS[app.store].fields, visit.form)
    saved = await store_connections.save(visit.services.stores, visit.project_id, app.id, given)
    visit.audit(check=saved.row.check_result)
    words, kind = {
        "ok": ("The credentials are saved, and the store accepts them.", "done"),
        "refused": (f"The credentials are saved, but the store refuses them. {saved.row.check_message}", "refused"),
        "unknown": (f"The credentials are saved. {saved.row.check_message}", "warn"),
    }[saved.row.check_result]
    return await visit.to(visit.path("apps", app.id), words, kind)


@pages.post("/apps/{app_id}/credentials/check", Needs.MANAGE, "app.credentials_checked")
async def check(visit: Visit, app_id: str) -> Response:
    checked = await store_connections.check(visit.services.stores, visit.project_id, app_id)
    visit.audit(check=checked.row.check_result)
    title = projects.TITLES[checked.row.store]
    words, kind = {
        "ok": (f"The {title} accepts the credentials.", "done"),
        "refused": (f"The {title} refuses the credentials. {checked.row.check_message}", "refused"),
        "unknown": (checked.row.check_message, "warn"),
    }[checked.row.check_result]
    if checked.row.store == APP_STORE and checked.row.check_result == "ok":
        words += " If Apple knows the notification URL, it sends a test notification now."
    return await visit.to(visit.path("apps", app_id), words, kind)


@pages.confirmed("/apps/{app_id}/credentials/delete", Needs.MANAGE, "app.credentials_deleted")
async def delete(visit: Visit, app_id: str) -> Response:
    await store_connections.delete(visit.services.stores, visit.project_id, app_id)
    words = "The credentials are deleted. Notifications and receipts are refused until new credentials are saved."
    return await visit.to(visit.path("apps", app_id), words, "warn")


@pages.confirmed("/apps/{app_id}/notification-url/rotate", Needs.MANAGE, "app.notification_url_rotated")
async def rotate(visit: Visit, app_id: str) -> Response:
    await store_connections.rotate_url(visit.services.stores, visit.project_id, app_id)
    words = "There is a new notification URL. Give it to the store within 7 days: until then the old URL works too."
    return await visit.to(visit.path("apps", app_id), words)
