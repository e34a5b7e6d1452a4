"""The packages of offerings, and the products in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from latchkey.api.audited import audited
from latchkey.api.authentication import ReadKey, WriteKey
from latchkey.api.models import Body, Id, LookupKey, Name, Paging, not_null
from latchkey.api.routing import Router, reply, shows
from latchkey.api.services import Provided
from latchkey.domain.offering import Eligibility
from latchkey.usecases.catalog import packages
from latchkey.usecases.rendering import management
from latchkey.usecases.rendering import offerings as render
from latchkey.usecases.services import Services
from latchkey.wire import management as wire
from latchkey.wire.actions import Deleted
from latchkey.wire.v2 import Page

router = Router(prefix="/v2/projects/{project_id}/packages", tags=["V2 offerings"])

Expand = Annotated[list[Literal["product"]], Query(description="What to show inside the package.")]
Position = Annotated[int, Field(ge=1, le=1_000_000)]


class NewPackage(Body):
    lookup_key: LookupKey
    display_name: Name
    position: Position | None = None


class PackageChanges(Body):
    display_name: Name = not_null()
    position: Position = not_null()


class NewAssociation(Body):
    product_id: Id
    eligibility_criteria: Literal["all", "google_sdk_lt_6", "google_sdk_ge_6"] = "all"


class NewAssociations(Body):
    products: Annotated[list[NewAssociation], Field(min_length=1, max_length=packages.MOST_PRODUCTS)]


class ProductIds(Body):
    product_ids: Annotated[list[Id], Field(min_length=1, max_length=packages.MOST_PRODUCTS)]


@router.get("/{package_id}", responses=shows(wire.Package))
async def read_package(
    services: Provided,
    caller: ReadKey,
    package_id: str,
    expand: Expand = [],  # noqa: B006 - FastAPI copies it
) -> Response:
    """One package."""
    found = await packages.load_package(services.database, caller.project_id, package_id)
    return reply((await rendered_packages(services, caller.project_id, [found], products=bool(expand)))[0])


@router.patch("/{package_id}", responses=shows(wire.Package))
@router.post("/{package_id}", responses=shows(wire.Package))
@audited("package.updated")
async def update_package(services: Provided, caller: WriteKey, package_id: str, changes: PackageChanges) -> Response:
    """Rename a package, or move it to another position. The others move on."""
    changed = await packages.update_package(
        services.database,
        caller.project_id,
        package_id,
        display_name=changes.display_name,
        position=changes.position,
    )
    return reply(render.package(changed))


@router.delete("/{package_id}", responses=shows(Deleted))
@audited("package.deleted")
async def delete_package(services: Provided, caller: WriteKey, package_id: str) -> Response:
    """Delete a package. Its products stay in the catalog."""
    await packages.delete_package(services.database, caller.project_id, package_id)
    return reply(Deleted(object="package", id=package_id, deleted_at=services.now()))


@router.get("/{package_id}/products", responses=shows(Page[wire.PackageProduct]))
async def list_products_of_package(services: Provided, caller: ReadKey, package_id: str, paging: Paging) -> Response:
    """The products of a package, in the order of attaching. An app shows the first that is sold in it. A deleted one
    has `deleted_at`, and no app shows it."""
    found = await packages.list_products(
        services.database, caller.project_id, package_id, after=paging.after, limit=paging.limit + 1
    )
    path = caller.project_id, "packages", package_id, "products"
    return reply(management.listed(found, render.attached, lambda item: item.product.id, paging.limit, *path))


@router.post("/{package_id}/actions/attach_products", responses=shows(wire.Package))
@audited("package.products_attached")
async def attach_products(services: Provided, caller: WriteKey, package_id: str, named: NewAssociations) -> Response:
    """Put these products into the package, one for each app in which it is sold."""
    attached = {one.product_id: Eligibility(one.eligibility_criteria) for one in named.products}
    found = await packages.attach_products(services.database, caller.project_id, package_id, attached)
    return reply(render.package(found))


@router.post("/{package_id}/actions/detach_products", responses=shows(wire.Package))
@audited("package.products_detached")
async def detach_products(services: Provided, caller: WriteKey, package_id: str, named: ProductIds) -> Response:
    """Take these products out of the package. They stay in the catalog."""
    found = await packages.detach_products(services.database, caller.project_id, package_id, named.product_ids)
    return reply(render.package(found))


async def rendered_packages(
    services: Services, project_id: str, found: Sequence[packages.Package], *, products: bool
) -> list[wire.Package]:
    if not products:
        return [render.package(one) for one in found]
    inside = await packages.products_of(services.database, project_id, [one.id for one in found])
    return [render.package(one, render.whole_products(project_id, one.id, inside[one.id])) for one in found]
