"""Entitlements, and which products grant them."""

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import Query
from pydantic import ConfigDict, Field
from starlette.responses import Response

from latchkey.domain.catalog import Product
from latchkey.engine.storage.catalog.product_rows import Entitlement
from latchkey.http.audited import audited
from latchkey.http.authentication import ReadKey, WriteKey
from latchkey.http.errors import InvalidParameter
from latchkey.http.models import Body, Id, Name, Paging, not_null, one_of
from latchkey.http.routing import Router, reply, shows
from latchkey.http.services import Provided, Services
from latchkey.subjects.catalog import render, wire
from latchkey.subjects.catalog.usecases import entitlement_catalog
from latchkey.subjects.customers.wire import Deleted
from latchkey.wire.paging import LARGEST_LIMIT, page, project_path
from latchkey.wire.v2 import Page

router = Router(prefix="/v2/projects/{project_id}/entitlements", tags=["V2 entitlements"])

Expand = Annotated[list[Literal["product"]], Query(description="What to show inside the entitlement.")]
ExpandItems = Annotated[list[Literal["items.product"]], Query(description="What to show inside each entitlement.")]


class NewEntitlement(Body):
    """Either `lookup_key` or `id`: they are the same."""

    model_config = ConfigDict(json_schema_extra=one_of(id="string", lookup_key="string"))

    id: Id = not_null()
    lookup_key: Id = not_null()
    display_name: Name | None = None


class EntitlementChanges(Body):
    display_name: Name


class ProductIds(Body):
    product_ids: Annotated[list[Id], Field(min_length=1, max_length=100)]


@router.post("", responses=shows(wire.Entitlement, 201), status_code=201)
@audited("entitlement.created")
async def create_entitlement(services: Provided, caller: WriteKey, new: NewEntitlement) -> Response:
    """Create an entitlement. Products grant it once they are attached."""
    given = new.model_fields_set & {"id", "lookup_key"}
    if len(given) != 1:
        param = "lookup_key" if given else "id"
        raise InvalidParameter("Send either lookup_key or id; they are the same.", param=param)
    id = new.id or new.lookup_key
    made = await entitlement_catalog.create_entitlement(
        services.database, caller.project_id, id, new.display_name or id, services.now()
    )
    return reply(render.entitlement(caller.project_id, made), 201)


@router.get("", responses=shows(Page[wire.Entitlement]))
async def list_entitlements(
    services: Provided,
    caller: ReadKey,
    paging: Paging,
    expand: ExpandItems = [],  # noqa: B006 - FastAPI copies it
) -> Response:
    """The project's entitlements, by id."""
    found = await entitlement_catalog.list_entitlements(services.database, caller.project_id, *paging.window)
    return reply(paging.of(await _rendered(services, caller.project_id, found, products=bool(expand))))


@router.get("/{entitlement_id}", responses=shows(wire.Entitlement))
async def read_entitlement(
    services: Provided,
    caller: ReadKey,
    entitlement_id: str,
    expand: Expand = [],  # noqa: B006 - FastAPI copies it
) -> Response:
    """One entitlement."""
    found = await entitlement_catalog.load_entitlement(services.database, caller.project_id, entitlement_id)
    return reply((await _rendered(services, caller.project_id, [found], products=bool(expand)))[0])


@router.patch("/{entitlement_id}", responses=shows(wire.Entitlement))
@router.post("/{entitlement_id}", responses=shows(wire.Entitlement))
@audited("entitlement.renamed")
async def update_entitlement(
    services: Provided, caller: WriteKey, entitlement_id: str, changes: EntitlementChanges
) -> Response:
    """Rename an entitlement."""
    changed = await entitlement_catalog.rename_entitlement(
        services.database, caller.project_id, entitlement_id, changes.display_name
    )
    return reply(render.entitlement(caller.project_id, changed))


@router.delete("/{entitlement_id}", responses=shows(Deleted))
@audited("entitlement.deleted")
async def delete_entitlement(services: Provided, caller: WriteKey, entitlement_id: str) -> Response:
    """Delete an entitlement that no product grants. Detach the products first."""
    await entitlement_catalog.delete_entitlement(services.database, caller.project_id, entitlement_id)
    return reply(Deleted(object="entitlement", id=entitlement_id, deleted_at=services.now()))


@router.post("/{entitlement_id}/actions/attach_products", responses=shows(wire.Entitlement))
@audited("entitlement.products_attached")
async def attach_products(services: Provided, caller: WriteKey, entitlement_id: str, named: ProductIds) -> Response:
    """Let these products grant the entitlement, also to customers who already own them."""
    found = await entitlement_catalog.attach_products(
        services.database, caller.project_id, entitlement_id, named.product_ids
    )
    return reply(render.entitlement(caller.project_id, found))


@router.post("/{entitlement_id}/actions/detach_products", responses=shows(wire.Entitlement))
@audited("entitlement.products_detached")
async def detach_products(services: Provided, caller: WriteKey, entitlement_id: str, named: ProductIds) -> Response:
    """Stop these products from granting the entitlement. Customers who had it only through them lose it at once;
    attaching the products again gives it back."""
    found = await entitlement_catalog.detach_products(
        services.database, caller.project_id, entitlement_id, named.product_ids, services.now()
    )
    return reply(render.entitlement(caller.project_id, found))


@router.get("/{entitlement_id}/products", responses=shows(Page[wire.Product]))
async def list_products_of_entitlement(
    services: Provided, caller: ReadKey, entitlement_id: str, paging: Paging
) -> Response:
    """Every product that grants it, by id. A deleted one has `deleted_at`: it still grants it to its owners."""
    found = await entitlement_catalog.list_products_of(
        services.database, caller.project_id, entitlement_id, *paging.window
    )
    return reply(paging.of([render.product(caller.project_id, product) for product in found]))


async def _rendered(
    services: Services, project_id: str, found: Sequence[Entitlement], *, products: bool
) -> list[wire.Entitlement]:
    if not products:
        return [render.entitlement(project_id, one) for one in found]
    inside = await entitlement_catalog.products_of(services.database, project_id, [one.id for one in found])
    return [render.entitlement(project_id, one, _page(project_id, one.id, inside[one.id])) for one in found]


def _page(project_id: str, entitlement_id: str, found: Sequence[Product]) -> Page[wire.Product]:
    """The list inside an entitlement: all its products, up to the largest page."""
    path = project_path(project_id, "entitlements", entitlement_id, "products")
    items = [render.product(project_id, product) for product in found]
    return page(items, lambda item: item.id, path, LARGEST_LIMIT, None)
