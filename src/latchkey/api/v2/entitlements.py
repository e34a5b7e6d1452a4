"""Entitlements, and which products grant them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from latchkey.api.audited import audited
from latchkey.api.authentication import ReadKey, WriteKey
from latchkey.api.models import Body, Id, Limit, Name, StartingAfter
from latchkey.api.replies import reply, shows
from latchkey.api.services import Provided
from latchkey.usecases.catalog import entitlements
from latchkey.usecases.rendering import management as render
from latchkey.usecases.rendering.v2 import DEFAULT_LIMIT
from latchkey.wire import management as wire
from latchkey.wire.actions import Deleted
from latchkey.wire.v2 import Page

router = APIRouter(prefix="/v2/projects/{project_id}/entitlements", tags=["V2 entitlements"])


class NewEntitlement(Body):
    id: Id
    display_name: Name | None = None


class EntitlementChanges(Body):
    display_name: Name


class ProductIds(Body):
    product_ids: Annotated[list[Id], Field(min_length=1, max_length=100)]


@router.post("", responses=shows(wire.Entitlement, 201), status_code=201, response_class=Response)
@audited("entitlement.created")
async def create_entitlement(services: Provided, caller: WriteKey, new: NewEntitlement) -> Response:
    """Create an entitlement. Products grant it once they are attached."""
    made = await entitlements.create_entitlement(
        services.database, caller.project_id, new.id, new.display_name or new.id, services.now()
    )
    return reply(render.entitlement(caller.project_id, made), 201)


@router.get("", responses=shows(Page[wire.Entitlement]), response_class=Response)
async def list_entitlements(
    services: Provided, caller: ReadKey, limit: Limit = DEFAULT_LIMIT, starting_after: StartingAfter = None
) -> Response:
    """The project's entitlements, by id."""
    found = await entitlements.list_entitlements(
        services.database, caller.project_id, after=starting_after, limit=limit + 1
    )
    return reply(
        render.listed(found, render.entitlement, lambda item: item.id, limit, caller.project_id, "entitlements")
    )


@router.get("/{entitlement_id}", responses=shows(wire.Entitlement), response_class=Response)
async def read_entitlement(services: Provided, caller: ReadKey, entitlement_id: str) -> Response:
    """One entitlement."""
    found = await entitlements.load_entitlement(services.database, caller.project_id, entitlement_id)
    return reply(render.entitlement(caller.project_id, found))


@router.patch("/{entitlement_id}", responses=shows(wire.Entitlement), response_class=Response)
@router.post("/{entitlement_id}", responses=shows(wire.Entitlement), response_class=Response)
@audited("entitlement.renamed")
async def update_entitlement(
    services: Provided, caller: WriteKey, entitlement_id: str, changes: EntitlementChanges
) -> Response:
    """Rename an entitlement."""
    changed = await entitlements.rename_entitlement(
        services.database, caller.project_id, entitlement_id, changes.display_name
    )
    return reply(render.entitlement(caller.project_id, changed))


@router.delete("/{entitlement_id}", responses=shows(Deleted), response_class=Response)
@audited("entitlement.deleted")
async def delete_entitlement(services: Provided, caller: WriteKey, entitlement_id: str) -> Response:
    """Delete an entitlement that no product grants. Detach the products first."""
    await entitlements.delete_entitlement(services.database, caller.project_id, entitlement_id)
    return reply(Deleted(object="entitlement", id=entitlement_id, deleted_at=services.now()))


@router.post("/{entitlement_id}/actions/attach_products", responses=shows(wire.Entitlement), response_class=Response)
@audited("entitlement.products_attached")
async def attach_products(services: Provided, caller: WriteKey, entitlement_id: str, named: ProductIds) -> Response:
    """Let these products grant the entitlement, also to customers who already own them."""
    found = await entitlements.attach_products(services.database, caller.project_id, entitlement_id, named.product_ids)
    return reply(render.entitlement(caller.project_id, found))


@router.post("/{entitlement_id}/actions/detach_products", responses=shows(wire.Entitlement), response_class=Response)
@audited("entitlement.products_detached")
async def detach_products(services: Provided, caller: WriteKey, entitlement_id: str, named: ProductIds) -> Response:
    """Stop these products from granting the entitlement. Customers who had it only through them lose it at once;
    attaching the products again gives it back."""
    found = await entitlements.detach_products(
        services.database, caller.project_id, entitlement_id, named.product_ids, services.now()
    )
    return reply(render.entitlement(caller.project_id, found))


@router.get("/{entitlement_id}/products", responses=shows(Page[wire.Product]), response_class=Response)
async def list_products_of_entitlement(
    services: Provided,
    caller: ReadKey,
    entitlement_id: str,
    limit: Limit = DEFAULT_LIMIT,
    starting_after: StartingAfter = None,
) -> Response:
    """Every product that grants it, by id. A deleted one has `deleted_at`: it still grants it to its owners."""
    found = await entitlements.list_products_of(
        services.database, caller.project_id, entitlement_id, after=starting_after, limit=limit + 1
    )
    path = caller.project_id, "entitlements", entitlement_id, "products"
    return reply(render.listed(found, render.product, lambda item: item.id, limit, *path))
