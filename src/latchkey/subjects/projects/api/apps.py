"""Apps, and the public keys that ship inside them."""

from fastapi import Request
from starlette.responses import Response

from latchkey.domain.refusal import NotFound
from latchkey.http.audited import audited
from latchkey.http.authentication import ReadKey, WriteKey
from latchkey.http.models import Body, Name, Paging, RateLimit
from latchkey.http.routing import Router, reply, shows
from latchkey.http.services import Provided
from latchkey.http.shared_bodies import shown_apps
from latchkey.subjects.api_keys import render as api_keys_render
from latchkey.subjects.api_keys import usecases as api_keys
from latchkey.subjects.api_keys import wire as api_keys_wire
from latchkey.subjects.customers.wire import Deleted
from latchkey.subjects.projects import usecases, wire
from latchkey.subjects.projects.api.app_bodies import AppChanges, NewApp, credentials_of, details_of, store_of
from latchkey.subjects.purchase_intake.usecases import store_connections
from latchkey.wire.v2 import Page

router = Router(prefix="/v2/projects/{project_id}/apps", tags=["V2 apps"])


class NewPublicKey(Body):
    # Defaults to the app's name.
    name: Name | None = None
    rate_limit: RateLimit = api_keys.RATE_LIMIT
    # Only apps in rc_billing have sandbox keys (rcb_sb_...).
    environment: api_keys.KeyEnvironment = "production"


@router.post("", responses=shows(wire.App, 201), status_code=201)
@audited("app.created")
async def create_app(request: Request, services: Provided, caller: WriteKey, new: NewApp) -> Response:
    """Create an app with its first public key."""
    now, project_id, store = services.now(), caller.project_id, store_of(new)
    details, given = details_of(new, store), credentials_of(new, store)
    if given:
        store_connections.check_form(services.stores, store, given)
    made = await usecases.create_app(services.database, project_id, new.name, store, now, details=details)
    issued = await api_keys.create_public_key(services.database, project_id, made.id, made.name, now)
    if given:
        await store_connections.save(services.stores, project_id, made.id, given)
    [shown] = await shown_apps(
        request, services, project_id, [made], api_keys_render.public_api_key(project_id, issued.key)
    )
    return reply(shown, 201)


@router.get("", responses=shows(Page[wire.App]))
async def list_apps(request: Request, services: Provided, caller: ReadKey, paging: Paging) -> Response:
    """The project's apps, oldest first."""
    found = await usecases.list_apps(services.database, caller.project_id, *paging.window)
    return reply(paging.of(await shown_apps(request, services, caller.project_id, found)))


@router.get("/{app_id}", responses=shows(wire.App))
async def read_app(request: Request, services: Provided, caller: ReadKey, app_id: str) -> Response:
    """One app."""
    app = await usecases.load_app(services.database, caller.project_id, app_id)
    return reply((await shown_apps(request, services, caller.project_id, [app]))[0])


@router.patch("/{app_id}", responses=shows(wire.App))
@router.post("/{app_id}", responses=shows(wire.App))
@audited("app.changed")
async def update_app(
    request: Request, services: Provided, caller: WriteKey, app_id: str, changes: AppChanges
) -> Response:
    """Change the name, or what the store calls the app. Keys of the App Store are saved with those that are there."""
    app = await usecases.load_app(services.database, caller.project_id, app_id)
    details, given = details_of(changes, app.store), credentials_of(changes, app.store)
    connected = (await store_connections.load_some(services.stores, caller.project_id, [app])).get(app_id)
    if connected is not None and connected.row.credentials is not None:
        # The name of the app in its store is part of its credentials.
        given |= {field: details[field] for field in ("bundle_id", "package_name") if field in details}
    if given:
        await store_connections.save_some(services.stores, caller.project_id, app_id, given)
    name = changes.name if "name" in changes.model_fields_set else None
    changed = await usecases.update_app(services.database, caller.project_id, app_id, name=name, details=details)
    return reply((await shown_apps(request, services, caller.project_id, [changed]))[0])


@router.delete("/{app_id}", responses=shows(Deleted))
@audited("app.deleted")
async def delete_app(services: Provided, caller: WriteKey, app_id: str) -> Response:
    """Delete an app and its keys: installed copies are refused. Receipts of a real store get 503, so that phones keep
    the purchases. What was bought in the app stays."""
    await usecases.delete_app(services.database, caller.project_id, app_id)
    return reply(Deleted(object="app", id=app_id, deleted_at=services.now()))


@router.post("/{app_id}/public_api_keys", responses=shows(api_keys_wire.PublicApiKey, 201), status_code=201)
@audited("app.key_created")
async def create_public_api_key(services: Provided, caller: WriteKey, app_id: str, new: NewPublicKey) -> Response:
    """Create another key for an app."""
    app = await usecases.load_app(services.database, caller.project_id, app_id)
    made = await api_keys.create_public_key(
        services.database,
        caller.project_id,
        app_id,
        new.name or app.name,
        services.now(),
        rate_limit=new.rate_limit,
        environment=new.environment,
    )
    return reply(api_keys_render.public_api_key(caller.project_id, made.key), 201)


@router.get("/{app_id}/public_api_keys", responses=shows(Page[api_keys_wire.PublicApiKey]))
async def list_public_api_keys(services: Provided, caller: ReadKey, app_id: str, paging: Paging) -> Response:
    """An app's keys, oldest first, including revoked ones."""
    await usecases.load_app(services.database, caller.project_id, app_id)
    found = await api_keys.list_keys(services.database, caller.project_id, *paging.window, app_id=app_id)
    return reply(paging.of([api_keys_render.public_api_key(caller.project_id, key) for key in found]))


@router.delete("/{app_id}/public_api_keys/{key_id}", responses=shows(api_keys_wire.PublicApiKey))
@audited("app.key_revoked")
async def revoke_public_api_key(services: Provided, caller: WriteKey, app_id: str, key_id: str) -> Response:
    """Revoke a key. The next request of an app with this key is refused."""
    if (await api_keys.load_key(services.database, caller.project_id, key_id)).app_id != app_id:
        raise NotFound(f"{app_id} has no key {key_id}.", param="key_id")
    revoked = await api_keys.revoke_key(services.database, caller.project_id, key_id, services.now())
    return reply(api_keys_render.public_api_key(caller.project_id, revoked))
