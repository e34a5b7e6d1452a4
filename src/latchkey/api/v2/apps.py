"""Apps, and the public keys that ship inside them."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, Request
from starlette.responses import Response

from latchkey.api.audited import audited
from latchkey.api.authentication import ReadKey, WriteKey
from latchkey.api.models import Body, Limit, Name, RateLimit, StartingAfter
from latchkey.api.replies import reply, shows
from latchkey.api.services import Provided
from latchkey.api.v2.credentials import base_of
from latchkey.domain.refusal import NotFound
from latchkey.usecases.access import keys, projects
from latchkey.usecases.rendering import management as render
from latchkey.usecases.rendering.v2 import DEFAULT_LIMIT
from latchkey.usecases.services import Services
from latchkey.usecases.stores import credentials
from latchkey.wire import management as wire
from latchkey.wire.actions import Deleted
from latchkey.wire.management import AppStore
from latchkey.wire.v2 import Page

router = APIRouter(prefix="/v2/projects/{project_id}/apps", tags=["V2 apps"])


class NewApp(Body):
    name: Name
    store: AppStore


class NewPublicKey(Body):
    # Defaults to the app's name.
    name: Name | None = None
    rate_limit: RateLimit = keys.RATE_LIMIT
    # Only apps in rc_billing have sandbox keys (rcb_sb_...).
    environment: keys.KeyEnvironment = "production"


@router.post("", responses=shows(wire.App, 201), status_code=201, response_class=Response)
@audited("app.created")
async def create_app(request: Request, services: Provided, caller: WriteKey, new: NewApp) -> Response:
    """Create an app with its first public key. Only this response shows the key."""
    now = services.now()
    made = await projects.create_app(services.database, caller.project_id, new.name, new.store, now)
    issued = await keys.create_public_key(services.database, caller.project_id, made.id, made.name, now)
    first_key = render.public_api_key(caller.project_id, issued.key, issued.plaintext)
    urls = await notification_urls(request, services, caller.project_id, [made])
    return reply(render.app(caller.project_id, made, urls.get(made.id), first_key), 201)


@router.get("", responses=shows(Page[wire.App]), response_class=Response)
async def list_apps(
    request: Request,
    services: Provided,
    caller: ReadKey,
    limit: Limit = DEFAULT_LIMIT,
    starting_after: StartingAfter = None,
) -> Response:
    """The project's apps, oldest first."""
    found = await projects.list_apps(services.database, caller.project_id, after=starting_after, limit=limit + 1)
    urls = await notification_urls(request, services, caller.project_id, found)

    def shown(project_id: str, one: projects.App) -> wire.App:
        return render.app(project_id, one, urls.get(one.id))

    return reply(render.listed(found, shown, lambda item: item.id, limit, caller.project_id, "apps"))


@router.get("/{app_id}", responses=shows(wire.App), response_class=Response)
async def read_app(request: Request, services: Provided, caller: ReadKey, app_id: str) -> Response:
    """One app."""
    app = await projects.load_app(services.database, caller.project_id, app_id)
    urls = await notification_urls(request, services, caller.project_id, [app])
    return reply(render.app(caller.project_id, app, urls.get(app.id)))


@router.delete("/{app_id}", responses=shows(Deleted), response_class=Response)
@audited("app.deleted")
async def delete_app(services: Provided, caller: WriteKey, app_id: str) -> Response:
    """Delete an app and its keys: installed copies are refused. Receipts of a real store get 503, so that phones keep
    the purchases. What was bought in the app stays."""
    await projects.delete_app(services.database, caller.project_id, app_id)
    return reply(Deleted(object="app", id=app_id, deleted_at=services.now()))


@router.post(
    "/{app_id}/public_api_keys", responses=shows(wire.PublicApiKey, 201), status_code=201, response_class=Response
)
@audited("app.key_created")
async def create_public_api_key(services: Provided, caller: WriteKey, app_id: str, new: NewPublicKey) -> Response:
    """Create another key for an app. Only this response shows it."""
    app = await projects.load_app(services.database, caller.project_id, app_id)
    made = await keys.create_public_key(
        services.database,
        caller.project_id,
        app_id,
        new.name or app.name,
        services.now(),
        rate_limit=new.rate_limit,
        environment=new.environment,
    )
    return reply(render.public_api_key(caller.project_id, made.key, made.plaintext), 201)


@router.get("/{app_id}/public_api_keys", responses=shows(Page[wire.PublicApiKey]), response_class=Response)
async def list_public_api_keys(
    services: Provided,
    caller: ReadKey,
    app_id: str,
    limit: Limit = DEFAULT_LIMIT,
    starting_after: StartingAfter = None,
) -> Response:
    """An app's keys, oldest first, including revoked ones."""
    await projects.load_app(services.database, caller.project_id, app_id)
    found = await keys.list_keys(
        services.database, caller.project_id, after=starting_after, limit=limit + 1, app_id=app_id
    )
    path = caller.project_id, "apps", app_id, "public_api_keys"
    return reply(render.listed(found, render.public_api_key, lambda item: item.id, limit, *path))


@router.delete("/{app_id}/public_api_keys/{key_id}", responses=shows(wire.PublicApiKey), response_class=Response)
@audited("app.key_revoked")
async def revoke_public_api_key(services: Provided, caller: WriteKey, app_id: str, key_id: str) -> Response:
    """Revoke a key. The next request of an app with this key is refused."""
    if (await keys.load_key(services.database, caller.project_id, key_id)).app_id != app_id:
        raise NotFound(f"{app_id} has no key {key_id}.", param="key_id")
    revoked = await keys.revoke_key(services.database, caller.project_id, key_id, services.now())
    return reply(render.public_api_key(caller.project_id, revoked))


async def rendered_apps(request: Request, services: Services, project_id: str) -> dict[str, wire.App]:
    """All apps of a project, by id."""
    found = await projects.all_apps(services.database, project_id)
    urls = await notification_urls(request, services, project_id, found)
    return {one.id: render.app(project_id, one, urls.get(one.id)) for one in found}


async def notification_urls(
    request: Request, services: Services, project_id: str, apps: Sequence[projects.App]
) -> dict[str, str]:
    """By app, for those whose store can be connected."""
    found = await credentials.load_some(services.stores, project_id, apps)
    return {id: base_of(request) + one.notification_path for id, one in found.items()}
