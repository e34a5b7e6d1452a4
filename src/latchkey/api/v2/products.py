"""The products of a project."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter
from starlette.responses import Response

from latchkey.api.audited import audited
from latchkey.api.authentication import ReadKey, WriteKey
from latchkey.api.models import (
    Amount,
    Body,
    CurrencyCode,
    Id,
    IsoDuration,
    Limit,
    Name,
    Quantity,
    StartingAfter,
    not_null,
)
from latchkey.api.replies import reply, shows
from latchkey.api.services import Provided
from latchkey.domain.catalog import Credit, ProductKind
from latchkey.usecases.catalog import products
from latchkey.usecases.rendering import management as render
from latchkey.usecases.rendering.v2 import DEFAULT_LIMIT
from latchkey.wire import management as wire
from latchkey.wire.actions import Deleted
from latchkey.wire.v2 import Page

router = APIRouter(prefix="/v2/projects/{project_id}/products", tags=["V2 products"])


class NewCredits(Body):
    code: Id
    amount: Quantity


class NewProduct(Body):
    id: Id
    display_name: Name | None = None
    kind: Literal["subscription", "one_time"]
    duration: IsoDuration | None = None
    trial_duration: IsoDuration | None = None
    price: Amount
    currency: CurrencyCode
    credits: NewCredits | None = None


class ProductChanges(Body):
    display_name: Name | None = None
    duration: IsoDuration | None = None
    trial_duration: IsoDuration | None = None
    price: Amount = not_null()
    currency: CurrencyCode = not_null()
    credits: NewCredits | None = None


@router.post("", responses=shows(wire.Product, 201), status_code=201, response_class=Response)
@audited("product.created")
async def create_product(services: Provided, caller: WriteKey, new: NewProduct) -> Response:
    """Put a product on sale."""
    terms = products.Terms(**{**_given(new), "kind": ProductKind(new.kind)})
    made = await products.create_product(services.database, caller.project_id, new.id, terms, services.now())
    return reply(render.product(caller.project_id, made), 201)


@router.get("", responses=shows(Page[wire.Product]), response_class=Response)
async def list_products(
    services: Provided, caller: ReadKey, limit: Limit = DEFAULT_LIMIT, starting_after: StartingAfter = None
) -> Response:
    """The products on sale, by id."""
    found = await products.list_products(services.database, caller.project_id, after=starting_after, limit=limit + 1)
    return reply(render.listed(found, render.product, lambda item: item.id, limit, caller.project_id, "products"))


@router.get("/{product_id}", responses=shows(wire.Product), response_class=Response)
async def read_product(services: Provided, caller: ReadKey, product_id: str) -> Response:
    """One product on sale."""
    found = await products.load_product(services.database, caller.project_id, product_id)
    return reply(render.product(caller.project_id, found))


@router.patch("/{product_id}", responses=shows(wire.Product), response_class=Response)
@router.post("/{product_id}", responses=shows(wire.Product), response_class=Response)
@audited("product.updated")
async def update_product(services: Provided, caller: WriteKey, product_id: str, changes: ProductChanges) -> Response:
    """Change the given fields. An active subscription keeps the price it was bought at."""
    changed = await products.update_product(services.database, caller.project_id, product_id, _given(changes))
    return reply(render.product(caller.project_id, changed))


@router.delete("/{product_id}", responses=shows(Deleted), response_class=Response)
@audited("product.deleted")
async def delete_product(services: Provided, caller: WriteKey, product_id: str) -> Response:
    """Take a product off sale. Its owners keep what it grants, and their subscriptions continue."""
    now = services.now()
    await products.delete_product(services.database, caller.project_id, product_id, now)
    return reply(Deleted(object="product", id=product_id, deleted_at=now))


def _given(body: NewProduct | ProductChanges) -> dict[str, Any]:
    """The fields that were sent, including nulls."""
    given = {name: getattr(body, name) for name in body.model_fields_set if name != "id"}
    if body.credits is not None:
        given["credits"] = Credit(body.credits.code, body.credits.amount)
    return given
