"""The offerings of an app, and the one that a user sees instead of the current one."""

import re

from fastapi import Request
from starlette.responses import Response

from latchkey.domain.storefront import AskingApp
from latchkey.http.audited import audited
from latchkey.http.authentication import AppReadKey, SecretWriteKey
from latchkey.http.exchange import SCOPE_KEY, Exchange
from latchkey.http.hot_reads import subscriber_reply
from latchkey.http.models import PathUserId
from latchkey.http.routing import Router, reply, shows
from latchkey.http.services import Provided
from latchkey.subjects.offerings import render
from latchkey.subjects.offerings.usecases.offerings import assign_offering, clear_offering, load_storefront
from latchkey.subjects.offerings.wire import Offerings
from latchkey.wire.v1 import SubscriberResponse

router = Router(tags=["V1 subscribers"])

_MAJOR = re.compile(rb"(\d{1,4})\.")


@router.get("/v1/subscribers/{app_user_id}/offerings", responses=shows(Offerings))
async def read_offerings(request: Request, services: Provided, caller: AppReadKey, app_user_id: PathUserId) -> Response:
    """The offerings of the key's app, with the app's product in each package. A secret key belongs to no app and sees
    every offering. The user need not exist."""
    place = AskingApp(caller.app_id, caller.store, _android_sdk(request.scope[SCOPE_KEY]))
    found = await load_storefront(services.changes, caller.project_id, place, app_user_id)
    return reply(render.storefront(found))


def _android_sdk(exchange: Exchange) -> int | None:
    """The major version of the Android SDK that asks."""
    if exchange.headers.get(b"x-platform", b"").lower() != b"android":
        return None
    version = _MAJOR.match(exchange.headers.get(b"x-version", b""))
    return int(version[1]) if version else None


@router.post(
    "/v1/subscribers/{app_user_id}/offerings/{offering_id}/override",
    responses=shows(SubscriberResponse, 201),
    status_code=201,
    response_class=Response,
)
@audited("customer.offering_assigned")
async def override_offering(
    request: Request, services: Provided, caller: SecretWriteKey, app_user_id: PathUserId, offering_id: str
) -> Response:
    """Show this offering to the user as the current one. An unknown user is created."""
    await assign_offering(services.changes, caller.project_id, app_user_id, offering_id, create=True)
    return await subscriber_reply(request, services, caller, app_user_id, 201)


@router.delete(
    "/v1/subscribers/{app_user_id}/offerings/override",
    responses=shows(SubscriberResponse, 201),
    status_code=201,
    response_class=Response,
)
@audited("customer.offering_cleared")
async def clear_override(
    request: Request, services: Provided, caller: SecretWriteKey, app_user_id: PathUserId
) -> Response:
    """Show the project's current offering to the user again."""
    await clear_offering(services.changes, caller.project_id, app_user_id)
    return await subscriber_reply(request, services, caller, app_user_id, 201)
