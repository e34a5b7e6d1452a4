"""The V1 subscriber as the response to a change."""

from __future__ import annotations

from collections.abc import Container

from fastapi import Request
from starlette.responses import Response

from latchkey.api.errors import Missing
from latchkey.api.exchange import SCOPE_KEY, Exchange
from latchkey.api.routing import reply
from latchkey.api.shape import is_vendors
from latchkey.api.visit import visit_of
from latchkey.usecases.engine.admission import Caller
from latchkey.usecases.rendering import v1
from latchkey.usecases.rendering.view import View, look_at
from latchkey.usecases.services import Services
from latchkey.wire.v1 import SubscriberResponse


async def subscriber_reply(
    request: Request, services: Services, caller: Caller, app_user_id: str, status: int = 200
) -> Response:
    """The subscriber, read again after the change."""
    view = await view_of(services, caller, app_user_id)
    return reply(subscriber(request.scope[SCOPE_KEY], services, caller, view), status)


async def view_of(services: Services, caller: Caller, app_user_id: str) -> View:
    row = await services.reader.read(caller.project_id, app_user_id)
    if row is None:
        raise Missing(f"There is no subscriber {app_user_id!r}.", param="app_user_id")
    return look_at(row, services.now())


def subscriber(
    exchange: Exchange,
    services: Services,
    caller: Caller,
    view: View,
    token: str | None = None,
    platforms: Container[str] | None = None,
) -> SubscriberResponse:
    """The subscriber as this caller, who knows this token, may see it. Also records the visit."""
    seen = visit_of(exchange.headers, view.now, always=caller.is_public, platforms=platforms)
    if seen is not None:
        services.presence.note(caller.project_id, view.key, seen)
    exchange.request_time = view.now
    return v1.subscriber(view, v1.Reader(caller.is_public, token, is_vendors(exchange)))
