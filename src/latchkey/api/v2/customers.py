"""Reading a V2 customer and its two lists."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from latchkey.api.authentication import ReadKey, documented
from latchkey.api.errors import Missing
from latchkey.api.exchange import READS_KEY, SCOPE_KEY
from latchkey.api.models import Limit, PathUserId, StartingAfter
from latchkey.api.reads import V2_ROUTE
from latchkey.api.replies import reply, shows
from latchkey.api.routing import Router
from latchkey.api.services import Provided
from latchkey.usecases.rendering import v2 as render
from latchkey.usecases.rendering.view import View, look_at
from latchkey.usecases.services import Services
from latchkey.wire import v2

router = Router(tags=["V2 customers"])

Expand = Annotated[
    list[str] | None, Query(alias="expand", description="`attributes` is always there, asked for or not.")
]


@router.get(V2_ROUTE, responses=shows(v2.Customer), response_class=Response, dependencies=[documented])
async def read_customer(request: Request, project_id: str, customer_id: PathUserId, _: Expand = None) -> Response:
    """The customer with this id or alias, with the first page of each of its lists."""
    status, body = await request.scope[READS_KEY].customer(request.scope[SCOPE_KEY], project_id, customer_id)
    return Response(body, status, media_type="application/json")


@router.get(f"{V2_ROUTE}/active_entitlements", responses=shows(v2.Page[v2.ActiveEntitlement]), response_class=Response)
async def list_active_entitlements(
    services: Provided,
    caller: ReadKey,
    customer_id: PathUserId,
    limit: Limit = render.DEFAULT_LIMIT,
    starting_after: StartingAfter = None,
) -> Response:
    """The customer's active entitlements."""
    view = await view_of(services, caller.project_id, customer_id)
    return reply(render.active_entitlements(view, limit, starting_after))


@router.get(f"{V2_ROUTE}/attributes", responses=shows(v2.Page[v2.Attribute]), response_class=Response)
async def list_attributes(
    services: Provided,
    caller: ReadKey,
    customer_id: PathUserId,
    limit: Limit = render.DEFAULT_LIMIT,
    starting_after: StartingAfter = None,
) -> Response:
    """The customer's attributes."""
    view = await view_of(services, caller.project_id, customer_id)
    return reply(render.attributes(view, limit, starting_after))


async def view_of(services: Services, project_id: str, customer_id: str) -> View:
    row = await services.reader.read(project_id, customer_id)
    if row is None:
        raise Missing(f"There is no customer {customer_id!r}.", param="customer_id")
    return look_at(row, services.now())
