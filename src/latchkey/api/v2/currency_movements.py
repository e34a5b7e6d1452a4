"""Credits and debits of a customer's virtual currency."""

from __future__ import annotations

from typing import Annotated
from uuid import uuid4

from fastapi import Query, Request
from pydantic import Field
from starlette.responses import Response

from latchkey.api.authentication import ReadKey, WriteKey
from latchkey.api.errors import InvalidParameter
from latchkey.api.exchange import SCOPE_KEY, Exchange
from latchkey.api.models import Body, Paging, PathUserId
from latchkey.api.routing import Router, reply, shows
from latchkey.api.services import Provided
from latchkey.usecases.customers.currency import adjust, balances
from latchkey.usecases.rendering import v2 as render
from latchkey.wire import v2
from latchkey.wire.actions import CurrencyBalance

router = Router(
    prefix="/v2/projects/{project_id}/customers/{customer_id}/virtual_currencies", tags=["V2 virtual currencies"]
)

# JSON numbers stay exact up to here in every client language.
Amount = Annotated[int, Field(ge=-(2**53 - 1), le=2**53 - 1)]
Code = Annotated[str, Field(min_length=1, max_length=100)]

WithEmpty = Annotated[bool, Query(description="Whether to list currencies with a balance of 0.")]


class Adjustments(Body):
    """Positive amounts are credited, negative ones debited; all of them, or none."""

    adjustments: Annotated[dict[Code, Amount], Field(min_length=1, max_length=20)]
    reference: Annotated[str | None, Field(max_length=500, description="Kept with the transaction.")] = None


@router.get("", responses=shows(v2.Page[CurrencyBalance]))
async def list_balances(
    services: Provided,
    caller: ReadKey,
    customer_id: PathUserId,
    paging: Paging,
    include_empty_balances: WithEmpty = True,
) -> Response:
    """Every currency of the project with this customer's balance."""
    found = await _balances(
        services, caller.project_id, customer_id, paging.limit, paging.after, include_empty_balances
    )
    return reply(found)


@router.post("/update_balance", responses=shows(v2.Page[CurrencyBalance]))
@router.post("/transactions", responses=shows(v2.Page[CurrencyBalance]))
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
    limit = render.DEFAULT_LIMIT
    return reply(await _balances(services, caller.project_id, customer_id, limit, None, include_empty_balances))


async def _balances(
    services: Provided, project_id: str, customer_id: str, limit: int, starting_after: str | None, with_empty: bool
) -> v2.Page[CurrencyBalance]:
    items = [
        CurrencyBalance(currency_code=one.code, balance=one.balance, name=one.name, description=one.description)
        for one in await balances(services.changes, project_id, customer_id)
        if with_empty or one.balance
    ]
    path = f"{render.path_of(project_id, customer_id)}/virtual_currencies"
    filters = None if with_empty else {"include_empty_balances": "false"}
    return render.page(items, lambda item: item.currency_code, path, limit, starting_after, filters)
