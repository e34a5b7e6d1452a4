"""Virtual currencies. Customers' balances are in `currency_movements.py`."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from latchkey.api.audited import audited
from latchkey.api.authentication import ReadKey, WriteKey
from latchkey.api.models import Body, Description, Id, Limit, Name, StartingAfter, not_null
from latchkey.api.replies import reply, shows
from latchkey.api.services import Provided
from latchkey.usecases.catalog import currencies
from latchkey.usecases.rendering import management as render
from latchkey.usecases.rendering.v2 import DEFAULT_LIMIT
from latchkey.wire import management as wire
from latchkey.wire.actions import Deleted
from latchkey.wire.v2 import Page

router = APIRouter(prefix="/v2/projects/{project_id}/virtual_currencies", tags=["V2 virtual currencies"])


class NewCurrency(Body):
    code: Id
    name: Name
    description: Description | None = None


class CurrencyChanges(Body):
    name: Name = not_null()
    description: Description | None = None


@router.post("", responses=shows(wire.VirtualCurrency, 201), status_code=201, response_class=Response)
@audited("currency.created")
async def create_virtual_currency(services: Provided, caller: WriteKey, new: NewCurrency) -> Response:
    """Create a currency that products can credit and customers can hold."""
    made = await currencies.create_currency(
        services.database, caller.project_id, new.code, new.name, new.description or "", services.now()
    )
    return reply(render.currency(caller.project_id, made), 201)


@router.get("", responses=shows(Page[wire.VirtualCurrency]), response_class=Response)
async def list_virtual_currencies(
    services: Provided, caller: ReadKey, limit: Limit = DEFAULT_LIMIT, starting_after: StartingAfter = None
) -> Response:
    """The project's virtual currencies, by code."""
    found = await currencies.list_currencies(
        services.database, caller.project_id, after=starting_after, limit=limit + 1
    )
    path = caller.project_id, "virtual_currencies"
    return reply(render.listed(found, render.currency, lambda item: item.code, limit, *path))


@router.get("/{code}", responses=shows(wire.VirtualCurrency), response_class=Response)
async def read_virtual_currency(services: Provided, caller: ReadKey, code: str) -> Response:
    """One virtual currency."""
    found = await currencies.load_currency(services.database, caller.project_id, code)
    return reply(render.currency(caller.project_id, found))


@router.patch("/{code}", responses=shows(wire.VirtualCurrency), response_class=Response)
@router.post("/{code}", responses=shows(wire.VirtualCurrency), response_class=Response)
@audited("currency.updated")
async def update_virtual_currency(
    services: Provided, caller: WriteKey, code: str, changes: CurrencyChanges
) -> Response:
    """Change the name or the description; null removes the description."""
    described = "description" in changes.model_fields_set
    changed = await currencies.update_currency(
        services.database,
        caller.project_id,
        code,
        name=changes.name,
        description=(changes.description or "") if described else None,
    )
    return reply(render.currency(caller.project_id, changed))


@router.delete("/{code}", responses=shows(Deleted), response_class=Response)
@audited("currency.deleted")
async def delete_virtual_currency(services: Provided, caller: WriteKey, code: str) -> Response:
    """Delete a currency that no product credits and no customer ever had."""
    await currencies.delete_currency(services.database, caller.project_id, code)
    return reply(Deleted(object="virtual_currency", id=code, deleted_at=services.now()))
