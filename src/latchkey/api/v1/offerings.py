"""The offerings of an app."""

from __future__ import annotations

import re

from fastapi import Request
from starlette.responses import Response

from latchkey.api.authentication import AppReadKey
from latchkey.api.exchange import SCOPE_KEY, Exchange
from latchkey.api.models import PathUserId
from latchkey.api.replies import reply, shows
from latchkey.api.routing import Router
from latchkey.api.services import Provided
from latchkey.domain.storefront import AskingApp
from latchkey.usecases.catalog.storefront import load_storefront
from latchkey.usecases.rendering import offerings as render
from latchkey.wire.offerings import Offerings

router = Router(tags=["V1 subscribers"])

_MAJOR = re.compile(rb"(\d{1,4})\.")


@router.get("/v1/subscribers/{app_user_id}/offerings", responses=shows(Offerings), response_class=Response)
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
