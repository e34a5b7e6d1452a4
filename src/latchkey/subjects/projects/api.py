"""The project itself, its team and its audit log."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import ConfigDict, Field

from latchkey.domain.customers.identity import RestoreBehavior
from latchkey.domain.instants import LATEST, Ms
from latchkey.domain.naming import LONGEST_NAME
from latchkey.domain.pages import items_after
from latchkey.domain.refusal import NotFound
from latchkey.domain.stores.store import APP_STORE, AppStore
from latchkey.engine.storage.catalog import app_rows
from latchkey.http.authentication import ReadKey, SecretReadKey, SecretWriteKey, WriteKey
from latchkey.http.errors import Forbidden, InvalidParameter, Unprocessable
from latchkey.http.models import AppleId, Body, CurrencyCode, Name, Paging, RateLimit, TimeZone, not_null
from latchkey.http.routing import Response, Router, reply, shows
from latchkey.http.shared_bodies import shown_apps
from latchkey.subjects.accounts.usecases import team
from latchkey.subjects.api_keys import render as api_keys_render
from latchkey.subjects.api_keys import usecases as api_keys
from latchkey.subjects.api_keys import wire as api_keys_wire
from latchkey.subjects.audit import render as audit_render
from latchkey.subjects.audit import usecases as audit
from latchkey.subjects.audit import wire as audit_wire
from latchkey.subjects.customers.wire import Deleted
from latchkey.subjects.projects import render, usecases, wire
from latchkey.subjects.purchase_intake.usecases import store_connections
from latchkey.wire.v2 import Page

router = Router(prefix="/v2/projects", tags=["V2 project"])


class NewProject(Body):
    name: Name


class ProjectChanges(Body):
    name: Name = not_null()
    restore_behavior: Literal["transfer", "keep", "transfer_if_no_active_subscriptions"] = not_null()
    test_store: app_rows.TestStore = not_null()
    time_zone: TimeZone = not_null()


@router.get("", responses=shows(Page[wire.Project]))
async def list_projects(call: SecretReadKey, paging: Paging) -> Response:
    """The projects of this key: a key belongs to one project, so this lists one."""
    found = render.project(await call.run(usecases.load_project))
    return reply(paging.of(items_after(paging.after, [found], "project", lambda project: project.id)))


@router.acts("", wire.Project, "project.created")
async def create_project(call: SecretWriteKey, new: NewProject) -> Response:
    """Create a project with its first secret key, which only this response shows and which works as long, as often and
    from where this key does. The owners of this key's project own it too. Needs the setting `keys_create_projects`."""
    if not call.services.keys_create_projects:
        raise Forbidden(
            "Keys may not create projects here. The operator creates them with `latchkey project create`, or allows it "
            "with the setting keys_create_projects."
        )
    now = call.now()
    made = await call.run(team.create_beside, new.name, now)
    rules = call.caller.rules
    issued = await api_keys.create_secret_key(
        call.database,
        made.id,
        f"made with {made.name}"[:LONGEST_NAME],
        now,
        rate_limit=min(api_keys.RATE_LIMIT, call.caller.rate_limit),
        expires_at=rules.expires_at if rules is not None else None,
        allowed_networks=rules.networks if rules is not None else (),
    )
    return reply(render.project(made, api_keys_render.api_key(made.id, issued.key, issued.plaintext)))


@router.get("/{project_id}", responses=shows(wire.Project))
async def read_project(call: ReadKey) -> Response:
    """The project and its settings."""
    return reply(render.project(await call.run(usecases.load_project)))


@router.acts("/{project_id}", wire.Project, "project.changed", methods=("PATCH",))
async def update_project(call: WriteKey, changes: ProjectChanges) -> Response:
    """Change the given settings of the project. `restore_behavior` decides what happens when another customer restores
    a purchase. A closed `test_store` refuses new test purchases and does not renew existing ones. The dashboard shows
    times in `time_zone`, an IANA name such as Europe/Berlin; times of the API stay in UTC."""
    behavior = RestoreBehavior(changes.restore_behavior) if "restore_behavior" in changes.model_fields_set else None
    given = changes.model_dump() | {"restore_behavior": behavior}
    return reply(render.project(await call.run(usecases.update_project, **given)))


Day = Annotated[date | None, Query(description="A day, as 2027-01-31 (UTC). Both days are included.")]


@router.get("/{project_id}/audit_logs", responses=shows(Page[audit_wire.AuditLog]))
async def list_audit_logs(call: ReadKey, paging: Paging, start_date: Day = None, end_date: Day = None) -> Response:
    """Every change in the project, newest first: by members, by API keys and by the command line."""
    before = None
    if paging.after is not None and (before := audit_render.position_of(paging.after)) is None:
        raise NotFound(f"There is no entry {paging.after!r} to start after.", param="starting_after")
    since, until = _midnight(start_date) if start_date else 0, _midnight(end_date, 1) if end_date else LATEST
    found = await call.run(audit.page, before, paging.limit + 1, since=since, until=until)
    days = {"start_date": start_date, "end_date": end_date}
    filters = {name: day.isoformat() for name, day in days.items() if day is not None}
    return reply(paging.of([audit_render.audit_log(call.project_id, entry) for entry in found], filters=filters))


@router.get("/{project_id}/collaborators", responses=shows(Page[wire.Collaborator]))
async def list_collaborators(call: ReadKey, paging: Paging) -> Response:
    """The members of the project, in the order in which they joined."""
    members = await call.run(team.members)
    following = items_after(paging.after, members, "collaborator", lambda member: member.account.id)
    return reply(paging.of([render.collaborator(member) for member in following]))


def _midnight(day: date, later: int = 0) -> Ms:
    """The beginning of a day, or of a later one, in UTC."""
    try:
        begun = datetime.combine(day + timedelta(days=later), time(), UTC)
    except OverflowError:
        return LATEST
    return min(int(begun.timestamp()) * 1000, LATEST)


Identifier = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[A-Za-z0-9._-]+$")]
Word = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[!-~]+$")]
Secret = Annotated[str, Field(min_length=1, max_length=4500)]
_UNUSED = "Latchkey does not use it: only null is accepted."
Unused = Annotated[str | None, Field(max_length=4500, description=_UNUSED)]


class AppStoreApp(Body):
    """The three `subscription_` fields are the in-app purchase key. It works with the app's Apple id, which is saved
    with it. `root_certificates` are for an emulator; without them Apple's own count."""

    bundle_id: Identifier = not_null()
    subscription_private_key: Secret | None = None
    subscription_key_id: Word | None = None
    subscription_key_issuer: Word | None = None
    app_apple_id: AppleId | None = None
    root_certificates: Annotated[list[Secret], Field(max_length=10)] | None = None
    shared_secret: Unused = None
    app_store_connect_api_key: Unused = None
    app_store_connect_api_key_id: Unused = None
    app_store_connect_api_key_issuer: Unused = None
    app_store_connect_vendor_number: Unused = None


class MacAppStoreApp(Body):
    bundle_id: Identifier = not_null()
    shared_secret: Unused = None


class PlayStoreApp(Body):
    package_name: Identifier = not_null()


class AmazonApp(Body):
    package_name: Identifier = not_null()
    shared_secret: Unused = None


DeepLink = Annotated[
    str | None,
    Field(max_length=300, description="Opens the app from the page of a purchase: `myapp://`, or a universal link."),
]


class StripeApp(Body):
    stripe_account_id: Word | None = None
    deep_link: DeepLink = None


class WebBillingApp(Body):
    app_name: Name = not_null()
    stripe_account_id: Word | None = None
    support_email: Word | None = None
    default_currency: CurrencyCode = not_null()
    deep_link: DeepLink = None


class PaddleApp(Body):
    paddle_is_sandbox: bool | None = None
    paddle_api_key: Unused = None


def _with_secrets() -> Any:
    """An object that may hold secrets: the audit log does not show it."""
    return Field(default_factory=lambda: None, repr=False)


class AppParts(Body):
    amazon: AmazonApp = _with_secrets()
    app_store: AppStoreApp = _with_secrets()
    mac_app_store: MacAppStoreApp = _with_secrets()
    play_store: PlayStoreApp = not_null()
    stripe: StripeApp = not_null()
    rc_billing: WebBillingApp = not_null()
    paddle: PaddleApp = _with_secrets()


class NewApp(AppParts):
    """`type` and `store` are two names for the same. At most the object of that type is present."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["type"]}, {"required": ["store"]}]})

    name: Name
    type: AppStore = not_null()
    store: AppStore = not_null()


class AppChanges(AppParts):
    """At most the object of the app's type is present. Its type cannot change."""

    name: Name = not_null()


PARTS = tuple(AppParts.model_fields)
# What the vendor calls the fields of the App Store's credentials.
_KEY_FIELDS = {
    "subscription_private_key": "private_key",
    "subscription_key_id": "key_id",
    "subscription_key_issuer": "issuer_id",
    "app_apple_id": "app_apple_id",
    "root_certificates": "root_certificates",
}
_UNUSED_FIELDS = (
    "shared_secret", "app_store_connect_api_key", "app_store_connect_api_key_id", "app_store_connect_api_key_issuer",
    "app_store_connect_vendor_number", "paddle_api_key",
)  # fmt: skip


def store_of(new: NewApp) -> AppStore:
    given = new.model_fields_set
    if ("type" in given) == ("store" in given):
        raise InvalidParameter("Send `type`, or `store`, which means the same, and not both.", param="store")
    return new.type if "type" in given else new.store


def details_of(body: NewApp | AppChanges, store: str) -> dict[str, Any]:
    """What was sent of the app's own object, without keys."""
    for part in PARTS:
        if part in body.model_fields_set and part != store:
            raise InvalidParameter(f"The app's type is {store}: only `{store}` may be sent with it.", param=part)
    if store not in body.model_fields_set:
        return {}
    sent: dict[str, Any] = getattr(body, store).model_dump(exclude_unset=True)
    for field in _UNUSED_FIELDS:
        if sent.pop(field, None) is not None:
            raise Unprocessable(f"{field}: {_UNUSED}", param=f"{store}.{field}")
    return {name: value for name, value in sent.items() if name not in _KEY_FIELDS}


def credentials_of(body: NewApp | AppChanges, store: str) -> dict[str, Any]:
    """The credentials that were sent, under the names that `PUT .../credentials` has for them."""
    if store != APP_STORE or store not in body.model_fields_set:
        return {}
    sent = body.app_store.model_dump(exclude_none=True)
    given = {name: sent[field] for field, name in _KEY_FIELDS.items() if field in sent}
    return {**given, "bundle_id": sent["bundle_id"]} if given and "bundle_id" in sent else given


apps_router = Router(prefix="/v2/projects/{project_id}/apps", tags=["V2 apps"])


class NewPublicKey(Body):
    # Defaults to the app's name.
    name: Name | None = None
    rate_limit: RateLimit = api_keys.RATE_LIMIT
    # Only apps in rc_billing have sandbox keys (rcb_sb_...).
    environment: api_keys.KeyEnvironment = "production"


@apps_router.creates("", wire.App, "app.created")
async def create_app(call: WriteKey, new: NewApp) -> Response:
    """Create an app with its first public key."""
    now, project_id, store = call.now(), call.project_id, store_of(new)
    details, given = details_of(new, store), credentials_of(new, store)
    if given:
        store_connections.check_form(call.services.stores, store, given)
    made = await usecases.create_app(call.database, project_id, new.name, store, now, details=details)
    issued = await api_keys.create_public_key(call.database, project_id, made.id, made.name, now)
    if given:
        await store_connections.save(call.services.stores, project_id, made.id, given)
    [shown] = await shown_apps(call, [made], api_keys_render.public_api_key(project_id, issued.key))
    return reply(shown, 201)


@apps_router.get("", responses=shows(Page[wire.App]))
async def list_apps(call: ReadKey, paging: Paging) -> Response:
    """The project's apps, oldest first."""
    return reply(paging.of(await shown_apps(call, await call.run(usecases.list_apps, *paging.window))))


@apps_router.get("/{app_id}", responses=shows(wire.App))
async def read_app(call: ReadKey, app_id: str) -> Response:
    """One app."""
    return reply((await shown_apps(call, [await call.run(usecases.load_app, app_id)]))[0])


@apps_router.updates("/{app_id}", wire.App, "app.changed")
async def update_app(call: WriteKey, app_id: str, changes: AppChanges) -> Response:
    """Change the name, or what the store calls the app. Keys of the App Store are saved with those that are there."""
    app = await call.run(usecases.load_app, app_id)
    details, given = details_of(changes, app.store), credentials_of(changes, app.store)
    connected = (await store_connections.load_some(call.services.stores, call.project_id, [app])).get(app_id)
    if connected is not None and connected.row.credentials is not None:
        # The name of the app in its store is part of its credentials.
        given |= {field: details[field] for field in ("bundle_id", "package_name") if field in details}
    if given:
        await store_connections.save_some(call.services.stores, call.project_id, app_id, given)
    name = changes.name if "name" in changes.model_fields_set else None
    return reply((await shown_apps(call, [await call.run(usecases.update_app, app_id, name=name, details=details)]))[0])


@apps_router.deletes("/{app_id}", Deleted, "app.deleted")
async def delete_app(call: WriteKey, app_id: str) -> Response:
    """Delete an app and its keys: installed copies are refused. Receipts of a real store get 503, so that phones keep
    the purchases. What was bought in the app stays."""
    await call.run(usecases.delete_app, app_id)
    return reply(Deleted(object="app", id=app_id, deleted_at=call.now()))


@apps_router.creates("/{app_id}/public_api_keys", api_keys_wire.PublicApiKey, "app.key_created")
async def create_public_api_key(call: WriteKey, app_id: str, new: NewPublicKey) -> Response:
    """Create another key for an app."""
    app = await call.run(usecases.load_app, app_id)
    made = await call.run(
        api_keys.create_public_key,
        app_id,
        new.name or app.name,
        call.now(),
        rate_limit=new.rate_limit,
        environment=new.environment,
    )
    return reply(api_keys_render.public_api_key(call.project_id, made.key), 201)


@apps_router.get("/{app_id}/public_api_keys", responses=shows(Page[api_keys_wire.PublicApiKey]))
async def list_public_api_keys(call: ReadKey, app_id: str, paging: Paging) -> Response:
    """An app's keys, oldest first, including revoked ones."""
    await call.run(usecases.load_app, app_id)
    found = await call.run(api_keys.list_keys, *paging.window, app_id=app_id)
    return reply(paging.of([api_keys_render.public_api_key(call.project_id, key) for key in found]))


@apps_router.deletes("/{app_id}/public_api_keys/{key_id}", api_keys_wire.PublicApiKey, "app.key_revoked")
async def revoke_public_api_key(call: WriteKey, app_id: str, key_id: str) -> Response:
    """Revoke a key. The next request of an app with this key is refused."""
    if (await call.run(api_keys.load_key, key_id)).app_id != app_id:
        raise NotFound(f"{app_id} has no key {key_id}.", param="key_id")
    revoked = await call.run(api_keys.revoke_key, key_id, call.now())
    return reply(api_keys_render.public_api_key(call.project_id, revoked))
