"""The list of customers, a V2 customer and its two lists."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request
from pydantic import AfterValidator, Field
from starlette.responses import Response

from latchkey.api.authentication import ReadKey, documented
from latchkey.api.errors import Missing
from latchkey.api.exchange import READS_KEY, SCOPE_KEY
from latchkey.api.models import Paging, PathUserId, without_nul
from latchkey.api.reads import V2_ROUTE
from latchkey.api.routing import Router, reply, shows
from latchkey.api.services import Provided
from latchkey.usecases.customers.listing import list_customers as find
from latchkey.usecases.rendering import management
from latchkey.usecases.rendering import v2 as render
from latchkey.usecases.rendering.view import View, look_at
from latchkey.usecases.services import Services
from latchkey.wire import management as wire
from latchkey.wire import v2
from latchkey.wire.v2 import Page

router = Router(tags=["V2 customers"])

Expand = Annotated[
    list[str] | None, Query(alias="expand", description="`attributes` is always there, asked for or not.")
]


@router.get(V2_ROUTE, responses=shows(v2.Customer), dependencies=[documented])
async def read_customer(request: Request, project_id: str, customer_id: PathUserId, _: Expand = None) -> Response:
    """The customer with this id or alias, with the first page of each of its lists."""
    status, body = await request.scope[READS_KEY].customer(request.scope[SCOPE_KEY], project_id, customer_id)
    return Response(body, status, media_type="application/json")


@router.get(f"{V2_ROUTE}/active_entitlements", responses=shows(v2.Page[v2.ActiveEntitlement]))
async def list_active_entitlements(
    services: Provided, caller: ReadKey, customer_id: PathUserId, paging: Paging
) -> Response:
    """The customer's active entitlements."""
    view = await view_of(services, caller.project_id, customer_id)
    return reply(render.active_entitlements(view, paging.limit, paging.after))


@router.get(f"{V2_ROUTE}/attributes", responses=shows(v2.Page[v2.Attribute]))
async def list_attributes(services: Provided, caller: ReadKey, customer_id: PathUserId, paging: Paging) -> Response:
    """The customer's attributes."""
    view = await view_of(services, caller.project_id, customer_id)
    return reply(render.attributes(view, paging.limit, paging.after))


async def view_of(services: Services, project_id: str, customer_id: str) -> View:
    row = await services.reader.read(project_id, customer_id)
    if row is None:
        raise Missing(f"There is no customer {customer_id!r}.", param="customer_id")
    return look_at(row, services.now())


_Address = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(without_nul)]
Search = Annotated[_Address | None, Query(description="A whole e-mail address, in any case.")]


@router.get("/v2/projects/{project_id}/customers", responses=shows(Page[wire.ListedCustomer]))
async def list_customers(services: Provided, caller: ReadKey, paging: Paging, search: Search = None) -> Response:
    """The project's customers by id, each with its own fields; read one to see its entitlements. `search` is a whole
    e-mail address: only customers with this `$email` are listed."""
    found = await find(services.database, caller.project_id, after=paging.after, limit=paging.limit + 1, email=search)
    filters = {"search": search} if search is not None else None
    path = caller.project_id, "customers"
    return reply(
        management.listed(found, management.listed_customer, lambda item: item.id, paging.limit, *path, filters=filters)
    )
