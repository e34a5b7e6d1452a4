"""Virtual currencies. Customers' balances are in `currency_movements.py`."""

from collections.abc import Sequence
from typing import Annotated
from uuid import uuid4

from fastapi import Query, Request
from pydantic import Field
from starlette.responses import Response

from latchkey.domain.customers.virtual_currency import MAX_BALANCE
from latchkey.engine.storage.catalog.currency_rows import Currency
from latchkey.http.audited import audited
from latchkey.http.authentication import ReadKey, WriteKey
from latchkey.http.errors import InvalidParameter, Unprocessable
from latchkey.http.exchange import SCOPE_KEY, Exchange
from latchkey.http.models import Body, Description, Id, Name, Paging, PathUserId, Quantity, not_null
from latchkey.http.routing import Router, reply, shows
from latchkey.http.services import Provided, Services
from latchkey.subjects.catalog import wire as catalog_wire
from latchkey.subjects.currencies import usecases, wire
from latchkey.subjects.currencies.usecases import ProductGrant, adjust, balances, load_grants
from latchkey.subjects.currencies.wire import CurrencyBalance
from latchkey.subjects.customers.wire import Deleted
from latchkey.wire import paging as wire_paging
from latchkey.wire import v2
from latchkey.wire.attributes import from_attributes
from latchkey.wire.v2 import Page

router = Router(prefix="/v2/projects/{project_id}", tags=["V2 virtual currencies"])


class NewCurrencyGrant(Body):
    """Products that credit this currency. `trial_amount` and `expire_at_cycle_end` are for subscriptions, which credit
    nothing here: only 0 and false are accepted."""

    product_ids: Annotated[list[Id], Field(min_length=1, max_length=100)]
    amount: Quantity
    trial_amount: Annotated[int, Field(ge=0, le=MAX_BALANCE)] | None = None
    expire_at_cycle_end: bool | None = None


Grants = Annotated[list[NewCurrencyGrant], Field(max_length=100)]


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


@router.post("/virtual_currencies", responses=shows(wire.VirtualCurrency, 201), status_code=201)
@audited("currency.created")
async def create_virtual_currency(services: Provided, caller: WriteKey, new: NewCurrency) -> Response:
    """Create a currency that products can credit and customers can hold."""
    named = new.code, new.name, new.description or ""
    grants = _granted(new.product_grants)
    made = await usecases.create_currency(services.database, caller.project_id, *named, services.now(), grants)
    return reply((await _rendered(services, caller.project_id, [made]))[0], 201)


@router.get("/virtual_currencies", responses=shows(Page[wire.VirtualCurrency]))
async def list_virtual_currencies(services: Provided, caller: ReadKey, paging: Paging) -> Response:
    """The project's virtual currencies, by code."""
    found = await usecases.list_currencies(services.database, caller.project_id, *paging.window)
    return reply(paging.of(await _rendered(services, caller.project_id, found), lambda item: item.code))


@router.get("/virtual_currencies/{code}", responses=shows(wire.VirtualCurrency))
async def read_virtual_currency(services: Provided, caller: ReadKey, code: str) -> Response:
    """One virtual currency."""
    found = await usecases.load_currency(services.database, caller.project_id, code)
    return reply((await _rendered(services, caller.project_id, [found]))[0])


@router.patch("/virtual_currencies/{code}", responses=shows(wire.VirtualCurrency))
@router.post("/virtual_currencies/{code}", responses=shows(wire.VirtualCurrency))
@audited("currency.updated")
async def update_virtual_currency(
    services: Provided, caller: WriteKey, code: str, changes: CurrencyChanges
) -> Response:
    """Change the name, the description (null removes it), or which products credit the currency."""
    given = changes.model_fields_set
    changed = await usecases.update_currency(
        services.database,
        caller.project_id,
        code,
        name=changes.name,
        description=(changes.description or "") if "description" in given else None,
        grants=_granted(changes.product_grants) if "product_grants" in given else None,
    )
    return reply((await _rendered(services, caller.project_id, [changed]))[0])


@router.delete("/virtual_currencies/{code}", responses=shows(Deleted))
@audited("currency.deleted")
async def delete_virtual_currency(services: Provided, caller: WriteKey, code: str) -> Response:
    """Delete a currency that no product credits and no customer ever had."""
    await usecases.delete_currency(services.database, caller.project_id, code)
    return reply(Deleted(object="virtual_currency", id=code, deleted_at=services.now()))


def _granted(new: list[NewCurrencyGrant] | None) -> list[ProductGrant]:
    for grant in new or ():
        if grant.trial_amount:
            raise Unprocessable("Trials credit nothing: leave trial_amount at 0.", param="product_grants")
        if grant.expire_at_cycle_end:
            raise Unprocessable("Balances do not expire here: leave expire_at_cycle_end false.", param="product_grants")
    return [ProductGrant(tuple(grant.product_ids), grant.amount) for grant in new or ()]


async def _rendered(services: Services, project_id: str, found: Sequence[Currency]) -> list[wire.VirtualCurrency]:
    grants = await load_grants(services.database, project_id, [currency.code for currency in found])
    return [
        from_attributes(
            wire.VirtualCurrency,
            currency,
            project_id=project_id,
            description=currency.description or None,
            product_grants=[from_attributes(catalog_wire.ProductGrant, grant) for grant in grants[currency.code]],
        )
        for currency in found
    ]


# JSON numbers stay exact up to here in every client language.
Amount = Annotated[int, Field(ge=-(2**53 - 1), le=2**53 - 1)]
Code = Annotated[str, Field(min_length=1, max_length=100)]

WithEmpty = Annotated[bool, Query(description="Whether to list currencies with a balance of 0.")]


class Adjustments(Body):
    """Positive amounts are credited, negative ones debited; all of them, or none."""

    adjustments: Annotated[dict[Code, Amount], Field(min_length=1, max_length=20)]
    reference: Annotated[str | None, Field(max_length=500, description="Kept with the transaction.")] = None


@router.get("/customers/{customer_id}/virtual_currencies", responses=shows(v2.Page[CurrencyBalance]))
async def list_balances(
    services: Provided,
    caller: ReadKey,
    customer_id: PathUserId,
    paging: Paging,
    include_empty_balances: WithEmpty = True,
) -> Response:
    """Every currency of the project with this customer's balance."""
    page = paging.limit, paging.after
    return reply(await _balances(services, caller.project_id, customer_id, *page, include_empty_balances))


@router.post("/customers/{customer_id}/virtual_currencies/update_balance", responses=shows(v2.Page[CurrencyBalance]))
@router.post("/customers/{customer_id}/virtual_currencies/transactions", responses=shows(v2.Page[CurrencyBalance]))
async def adjust_balances(
    request: Request,
    services: Provided,
    caller: WriteKey,
    customer_id: PathUserId,
    new: Adjustments,
    include_empty_balances: WithEmpty = True,
) -> Response:
    """Credit or debit, never below zero. Both paths do the same."""
    if 0 in new.adjustments.values():
        raise InvalidParameter("An adjustment of 0 does nothing.", param="adjustments")
    exchange: Exchange = request.scope[SCOPE_KEY]
    key = exchange.operation_id or str(uuid4())
    await adjust(services.changes, caller.project_id, customer_id, new.adjustments, key, new.reference)
    limit = wire_paging.DEFAULT_LIMIT
    return reply(await _balances(services, caller.project_id, customer_id, limit, None, include_empty_balances))


async def _balances(
    services: Provided, project_id: str, customer_id: str, limit: int, starting_after: str | None, with_empty: bool
) -> v2.Page[CurrencyBalance]:
    items = [
        from_attributes(CurrencyBalance, balance, currency_code=balance.code)
        for balance in await balances(services.changes, project_id, customer_id)
        if with_empty or balance.balance
    ]
    path = f"{wire_paging.path_of(project_id, customer_id)}/virtual_currencies"
    filters = None if with_empty else {"include_empty_balances": "false"}
    return wire_paging.page(items, lambda item: item.currency_code, path, limit, starting_after, filters)
