"""The list of a project's customers."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import AfterValidator, Field
from starlette.responses import Response

from latchkey.api.authentication import ReadKey
from latchkey.api.models import Limit, StartingAfter, without_nul
from latchkey.api.replies import reply, shows
from latchkey.api.routing import Router
from latchkey.api.services import Provided
from latchkey.usecases.customers.listing import list_customers as find
from latchkey.usecases.rendering import management as render
from latchkey.usecases.rendering.v2 import DEFAULT_LIMIT
from latchkey.wire import management as wire
from latchkey.wire.v2 import Page

router = Router(prefix="/v2/projects/{project_id}/customers", tags=["V2 customers"])


_Address = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(without_nul)]
Search = Annotated[_Address | None, Query(description="A whole e-mail address, in any case.")]


@router.get("", responses=shows(Page[wire.ListedCustomer]), response_class=Response)
async def list_customers(
    services: Provided,
    caller: ReadKey,
    limit: Limit = DEFAULT_LIMIT,
    starting_after: StartingAfter = None,
    search: Search = None,
) -> Response:
    """The project's customers by id, each with its own fields; read one to see its entitlements. `search` is a whole
    e-mail address: only customers with this `$email` are listed."""
    found = await find(services.database, caller.project_id, after=starting_after, limit=limit + 1, email=search)
    filters = {"search": search} if search is not None else None
    path = caller.project_id, "customers"
    return reply(render.listed(found, render.listed_customer, lambda item: item.id, limit, *path, filters=filters))
