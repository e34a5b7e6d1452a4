"""Virtual currencies. Customers' balances are in `currency_movements.py`."""

from collections.abc import Sequence
from typing import Annotated
from uuid import uuid4

from fastapi import Query
from pydantic import Field

from latchkey.domain.customers.virtual_currency import MAX_BALANCE
from latchkey.engine.storage.catalog.currency_rows import Currency
from latchkey.http.authentication import Call, ReadKey, WriteKey
from latchkey.http.errors import InvalidParameter, Unprocessable
from latchkey.http.models import Body, Description, Id, Name, Paging, PathUserId, Quantity, not_null
from latchkey.http.routing import Response, Router, reply, shows
from latchkey.subjects.catalog import wire as catalog_wire
from latchkey.subjects.currencies import usecases, wire
from latchkey.subjects.customers.wire import Deleted
from latchkey.wire import paging as wire_paging
from latchkey.wire import v2
from latchkey.wire.attributes import from_attributes

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


@router.creates("/virtual_currencies", wire.VirtualCurrency, "currency.created")
async def create_virtual_currency(call: WriteKey, new: NewCurrency) -> Response:
    """Create a currency that products can credit and customers can hold."""
    named = new.code, new.name, new.description or ""
    grants = _granted(new.product_grants)
    made = await call.run(usecases.create_currency, *named, grants, now=call.now())
    return reply((await _rendered(call, [made]))[0], 201)


@router.get("/virtual_currencies", responses=shows(v2.Page[wire.VirtualCurrency]))
async def list_virtual_currencies(call: ReadKey, paging: Paging) -> Response:
    """The project's virtual currencies, by code."""
    found = await call.run(usecases.list_currencies, *paging.window)
    return reply(paging.of(await _rendered(call, found), lambda item: item.code))


@router.get("/virtual_currencies/{code}", responses=shows(wire.VirtualCurrency))
async def read_virtual_currency(call: ReadKey, code: str) -> Response:
    """One virtual currency."""
    return reply((await _rendered(call, [await call.run(usecases.load_currency, code)]))[0])


@router.updates("/virtual_currencies/{code}", wire.VirtualCurrency, "currency.updated")
async def update_virtual_currency(call: WriteKey, code: str, changes: CurrencyChanges) -> Response:
    """Change the name, the description (null removes it), or which products credit the currency."""
    given = changes.model_fields_set
    changed = await call.run(
        usecases.update_currency,
        code,
        name=changes.name,
        description=(changes.description or "") if "description" in given else None,
        grants=_granted(changes.product_grants) if "product_grants" in given else None,
    )
    return reply((await _rendered(call, [changed]))[0])


@router.deletes("/virtual_currencies/{code}", Deleted, "currency.deleted")
async def delete_virtual_currency(call: WriteKey, code: str) -> Response:
    """Delete a currency that no product credits and no customer ever had."""
    await call.run(usecases.delete_currency, code)
    return reply(Deleted(object="virtual_currency", id=code, deleted_at=call.now()))


def _granted(new: list[NewCurrencyGrant] | None) -> list[usecases.ProductGrant]:
    for grant in new or ():
        if grant.trial_amount:
            raise Unprocessable("Trials credit nothing: leave trial_amount at 0.", param="product_grants")
        if grant.expire_at_cycle_end:
            raise Unprocessable("Balances do not expire here: leave expire_at_cycle_end false.", param="product_grants")
    return [usecases.ProductGrant(tuple(grant.product_ids), grant.amount) for grant in new or ()]


async def _rendered(call: Call, found: Sequence[Currency]) -> list[wire.VirtualCurrency]:
    grants = await call.run(usecases.load_grants, [currency.code for currency in found])
    return [
        from_attributes(
            wire.VirtualCurrency,
            currency,
            project_id=call.project_id,
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


@router.get("/customers/{customer_id}/virtual_currencies", responses=shows(v2.Page[wire.CurrencyBalance]))
async def list_balances(
    call: ReadKey, customer_id: PathUserId, paging: Paging, include_empty_balances: WithEmpty = True
) -> Response:
    """Every currency of the project with this customer's balance."""
    page = paging.limit, paging.after
    return reply(await _balances(call, customer_id, *page, include_empty_balances))


@router.post(
    "/customers/{customer_id}/virtual_currencies/update_balance", responses=shows(v2.Page[wire.CurrencyBalance])
)
@router.post("/customers/{customer_id}/virtual_currencies/transactions", responses=shows(v2.Page[wire.CurrencyBalance]))
async def adjust_balances(
    call: WriteKey, customer_id: PathUserId, new: Adjustments, include_empty_balances: WithEmpty = True
) -> Response:
    """Credit or debit, never below zero. Both paths do the same."""
    if 0 in new.adjustments.values():
        raise InvalidParameter("An adjustment of 0 does nothing.", param="adjustments")
    exchange = call.exchange
    key = exchange.operation_id or str(uuid4())
    await usecases.adjust(call.changes, call.project_id, customer_id, new.adjustments, key, new.reference)
    limit = wire_paging.DEFAULT_LIMIT
    return reply(await _balances(call, customer_id, limit, None, include_empty_balances))


async def _balances(
    call: Call, customer_id: str, limit: int, starting_after: str | None, with_empty: bool
) -> v2.Page[wire.CurrencyBalance]:
    items = [
        from_attributes(wire.CurrencyBalance, balance, currency_code=balance.code)
        for balance in await usecases.balances(call.changes, call.project_id, customer_id)
        if with_empty or balance.balance
    ]
    path = f"{wire_paging.path_of(call.project_id, customer_id)}/virtual_currencies"
    filters = None if with_empty else {"include_empty_balances": "false"}
    return wire_paging.page(items, lambda item: item.currency_code, path, limit, starting_after, filters)
