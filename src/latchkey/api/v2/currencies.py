"""Virtual currencies. Customers' balances are in `currency_movements.py`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from starlette.responses import Response

from latchkey.api.audited import audited
from latchkey.api.authentication import ReadKey, WriteKey
from latchkey.api.errors import Unprocessable
from latchkey.api.models import Body, Description, Id, Name, Paging, Quantity, not_null
from latchkey.api.routing import Router, reply, shows
from latchkey.api.services import Provided
from latchkey.domain.customers.currency import MAX_BALANCE
from latchkey.usecases.catalog import currencies
from latchkey.usecases.catalog.currencies import ProductGrant, load_grants
from latchkey.usecases.rendering import management as render
from latchkey.usecases.services import Services
from latchkey.wire import management as wire
from latchkey.wire.actions import Deleted
from latchkey.wire.v2 import Page

router = Router(prefix="/v2/projects/{project_id}/virtual_currencies", tags=["V2 virtual currencies"])


class NewGrant(Body):
    """Products that credit this currency. `trial_amount` and `expire_at_cycle_end` are for subscriptions, which credit
    nothing here: only 0 and false are accepted."""

    product_ids: Annotated[list[Id], Field(min_length=1, max_length=100)]
    amount: Quantity
    trial_amount: Annotated[int, Field(ge=0, le=MAX_BALANCE)] | None = None
    expire_at_cycle_end: bool | None = None


Grants = Annotated[list[NewGrant], Field(max_length=100)]


class NewCurrency(Body):
    code: Id
    name: Name
    description: Description | None = None
    product_grants: Grants | None = None


class CurrencyChanges(Body):
    name: Name = not_null()
    description: Description | None = None
    product_grants: Annotated[
        Grants | None, Field(description="All products that credit it from now on; null is none.")
    ] = None


@router.post("", responses=shows(wire.VirtualCurrency, 201), status_code=201)
@audited("currency.created")
async def create_virtual_currency(services: Provided, caller: WriteKey, new: NewCurrency) -> Response:
    """Create a currency that products can credit and customers can hold."""
    made = await currencies.create_currency(
        services.database,
        caller.project_id,
        new.code,
        new.name,
        new.description or "",
        services.now(),
        _granted(new.product_grants),
    )
    return reply(await _shown(services, caller.project_id, made), 201)


@router.get("", responses=shows(Page[wire.VirtualCurrency]))
async def list_virtual_currencies(services: Provided, caller: ReadKey, paging: Paging) -> Response:
    """The project's virtual currencies, by code."""
    found = await currencies.list_currencies(
        services.database, caller.project_id, after=paging.after, limit=paging.limit + 1
    )
    grants = await load_grants(services.database, caller.project_id, [one.code for one in found])

    def shown(project_id: str, one: currencies.Currency) -> wire.VirtualCurrency:
        return render.currency(project_id, one, grants[one.code])

    path = caller.project_id, "virtual_currencies"
    return reply(render.listed(found, shown, lambda item: item.code, paging.limit, *path))


@router.get("/{code}", responses=shows(wire.VirtualCurrency))
async def read_virtual_currency(services: Provided, caller: ReadKey, code: str) -> Response:
    """One virtual currency."""
    found = await currencies.load_currency(services.database, caller.project_id, code)
    return reply(await _shown(services, caller.project_id, found))


@router.patch("/{code}", responses=shows(wire.VirtualCurrency))
@router.post("/{code}", responses=shows(wire.VirtualCurrency))
@audited("currency.updated")
async def update_virtual_currency(
    services: Provided, caller: WriteKey, code: str, changes: CurrencyChanges
) -> Response:
    """Change the name, the description (null removes it), or which products credit the currency."""
    given = changes.model_fields_set
    described = "description" in given
    changed = await currencies.update_currency(
        services.database,
        caller.project_id,
        code,
        name=changes.name,
        description=(changes.description or "") if described else None,
        grants=_granted(changes.product_grants) if "product_grants" in given else None,
    )
    return reply(await _shown(services, caller.project_id, changed))


@router.delete("/{code}", responses=shows(Deleted))
@audited("currency.deleted")
async def delete_virtual_currency(services: Provided, caller: WriteKey, code: str) -> Response:
    """Delete a currency that no product credits and no customer ever had."""
    await currencies.delete_currency(services.database, caller.project_id, code)
    return reply(Deleted(object="virtual_currency", id=code, deleted_at=services.now()))


def _granted(new: list[NewGrant] | None) -> list[ProductGrant]:
    for one in new or ():
        if one.trial_amount:
            raise Unprocessable("Trials credit nothing: leave trial_amount at 0.", param="product_grants")
        if one.expire_at_cycle_end:
            raise Unprocessable("Balances do not expire here: leave expire_at_cycle_end false.", param="product_grants")
    return [ProductGrant(tuple(one.product_ids), one.amount) for one in new or ()]


async def _shown(services: Services, project_id: str, one: currencies.Currency) -> wire.VirtualCurrency:
    grants = await load_grants(services.database, project_id, [one.code])
    return render.currency(project_id, one, grants[one.code])
