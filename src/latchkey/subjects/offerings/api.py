"""The packages of offerings, and the products in them."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import Query, Request
from pydantic import Field
from starlette.responses import Response

from latchkey.domain.catalog import Eligibility, Offering, Package
from latchkey.http.audited import audited
from latchkey.http.authentication import AppReadKey, ReadKey, SecretWriteKey, WriteKey
from latchkey.http.exchange import SCOPE_KEY, Exchange
from latchkey.http.hot_reads import subscriber_reply
from latchkey.http.models import NO_ITEMS, AnyId, Body, Id, LookupKey, Name, Paging, PathUserId, not_null
from latchkey.http.routing import Router, reply, shows
from latchkey.http.services import Provided, Services
from latchkey.subjects.customers.wire import Deleted
from latchkey.subjects.offerings import render, usecases, wire
from latchkey.subjects.offerings.rules import AskingApp
from latchkey.subjects.offerings.usecases import assign_offering, clear_offering, load_storefront
from latchkey.subjects.offerings.wire import Offerings
from latchkey.wire.v1 import SubscriberResponse
from latchkey.wire.v2 import Page

router = Router(prefix="/v2/projects/{project_id}", tags=["V2 offerings"])

PackagesExpand = Annotated[list[Literal["product"]], Query(description="What to show inside the package.")]
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
    products: Annotated[list[NewAssociation], Field(min_length=1, max_length=usecases.MOST_PRODUCTS)]


class PackageProductIds(Body):
    product_ids: Annotated[list[Id], Field(min_length=1, max_length=usecases.MOST_PRODUCTS)]


@router.get("/packages/{package_id}", responses=shows(wire.Package))
async def read_package(
    services: Provided, caller: ReadKey, package_id: str, expand: PackagesExpand = NO_ITEMS
) -> Response:
    """One package."""
    found = await usecases.load_package(services.database, caller.project_id, package_id)
    return reply((await rendered_packages(services, caller.project_id, [found], products=bool(expand)))[0])


@router.patch("/packages/{package_id}", responses=shows(wire.Package))
@router.post("/packages/{package_id}", responses=shows(wire.Package))
@audited("package.updated")
async def update_package(services: Provided, caller: WriteKey, package_id: str, changes: PackageChanges) -> Response:
    """Rename a package, or move it to another position. The others move on."""
    changed = await usecases.update_package(services.database, caller.project_id, package_id, **changes.model_dump())
    return reply(render.package(changed))


@router.delete("/packages/{package_id}", responses=shows(Deleted))
@audited("package.deleted")
async def delete_package(services: Provided, caller: WriteKey, package_id: str) -> Response:
    """Delete a package. Its products stay in the catalog."""
    await usecases.delete_package(services.database, caller.project_id, package_id)
    return reply(Deleted(object="package", id=package_id, deleted_at=services.now()))


@router.get("/packages/{package_id}/products", responses=shows(Page[wire.PackageProduct]))
async def list_products_of_package(services: Provided, caller: ReadKey, package_id: str, paging: Paging) -> Response:
    """The products of a package, in the order of attaching. An app shows the first that is sold in it. A deleted one
    has `deleted_at`, and no app shows it."""
    found = await usecases.list_products(services.database, caller.project_id, package_id, *paging.window)
    items = [render.attached(caller.project_id, attached) for attached in found]
    return reply(paging.of(items, lambda item: item.product.id))


@router.post("/packages/{package_id}/actions/attach_products", responses=shows(wire.Package))
@audited("package.products_attached")
async def attach_products(services: Provided, caller: WriteKey, package_id: str, named: NewAssociations) -> Response:
    """Put these products into the package, one for each app in which it is sold."""
    attached = {product.product_id: Eligibility(product.eligibility_criteria) for product in named.products}
    found = await usecases.attach_products(services.database, caller.project_id, package_id, attached)
    return reply(render.package(found))


@router.post("/packages/{package_id}/actions/detach_products", responses=shows(wire.Package))
@audited("package.products_detached")
async def detach_products(services: Provided, caller: WriteKey, package_id: str, named: PackageProductIds) -> Response:
    """Take these products out of the package. They stay in the catalog."""
    found = await usecases.detach_products(services.database, caller.project_id, package_id, named.product_ids)
    return reply(render.package(found))


async def rendered_packages(
    services: Services, project_id: str, found: Sequence[Package], *, products: bool
) -> list[wire.Package]:
    if not products:
        return [render.package(one) for one in found]
    inside = await usecases.products_of(services.database, project_id, [one.id for one in found])
    return [render.package(one, render.whole_products(project_id, one.id, inside[one.id])) for one in found]


OfferingsExpand = Annotated[
    list[Literal["package", "package.product"]], Query(description="What to show inside each item.")
]
ExpandItems = Annotated[
    list[Literal["items.package", "items.package.product"]], Query(description="What to show inside each item.")
]
ExpandProducts = Annotated[list[Literal["items.product"]], Query(description="What to show inside each item.")]


class NewOffering(Body):
    lookup_key: LookupKey
    display_name: Name
    metadata: dict[str, Any] | None = None


class OfferingChanges(Body):
    display_name: Name = not_null()
    is_current: bool = not_null()
    metadata: dict[str, Any] | None = None


@router.post("/offerings", responses=shows(wire.Offering, 201), status_code=201)
@audited("offering.created")
async def create_offering(services: Provided, caller: WriteKey, new: NewOffering) -> Response:
    """Create an offering. The first one of a project is the current one."""
    made = await usecases.create_offering(
        services.database, caller.project_id, new.lookup_key, new.display_name, new.metadata, services.now()
    )
    return reply(render.offering(caller.project_id, made), 201)


@router.get("/offerings", responses=shows(Page[wire.Offering]))
async def list_offerings(
    services: Provided, caller: ReadKey, paging: Paging, expand: ExpandItems = NO_ITEMS
) -> Response:
    """The project's offerings, oldest first."""
    found = await usecases.list_offerings(services.database, caller.project_id, *paging.window)
    inside = [name.removeprefix("items.") for name in expand]
    return reply(paging.of(await _rendered(services, caller.project_id, found, inside)))


@router.get("/offerings/{offering_id}", responses=shows(wire.Offering))
async def read_offering(
    services: Provided, caller: ReadKey, offering_id: str, expand: OfferingsExpand = NO_ITEMS
) -> Response:
    """One offering."""
    found = await usecases.load_offering(services.database, caller.project_id, offering_id)
    return reply((await _rendered(services, caller.project_id, [found], expand))[0])


@router.patch("/offerings/{offering_id}", responses=shows(wire.Offering))
@router.post("/offerings/{offering_id}", responses=shows(wire.Offering))
@audited("offering.updated")
async def update_offering(services: Provided, caller: WriteKey, offering_id: str, changes: OfferingChanges) -> Response:
    """Change the given fields. A new current offering replaces the one before."""
    given = changes.model_dump(exclude_unset=True)
    changed = await usecases.update_offering(services.database, caller.project_id, offering_id, given)
    return reply(render.offering(caller.project_id, changed))


@router.delete("/offerings/{offering_id}", responses=shows(Deleted))
@audited("offering.deleted")
async def delete_offering(services: Provided, caller: WriteKey, offering_id: str) -> Response:
    """Delete an offering with its packages. Refused while it is the current one, or a placement or an experiment shows
    it."""
    await usecases.delete_offering(services.database, caller.project_id, offering_id)
    return reply(Deleted(object="offering", id=offering_id, deleted_at=services.now()))


@router.post("/offerings/{offering_id}/packages", responses=shows(wire.Package, 201), status_code=201)
@audited("package.created")
async def create_package(services: Provided, caller: WriteKey, offering_id: str, new: NewPackage) -> Response:
    """Create a package, at the given position or at the end. Names such as `$rc_monthly` have a meaning to the SDKs."""
    made = await usecases.create_package(
        services.database, caller.project_id, offering_id, **new.model_dump(), now=services.now()
    )
    return reply(render.package(made), 201)


@router.get("/offerings/{offering_id}/packages", responses=shows(Page[wire.Package]))
async def list_packages(
    services: Provided, caller: ReadKey, offering_id: str, paging: Paging, expand: ExpandProducts = NO_ITEMS
) -> Response:
    """The packages of an offering, in order."""
    found = await usecases.list_packages(services.database, caller.project_id, offering_id, *paging.window)
    return reply(paging.of(await rendered_packages(services, caller.project_id, found, products=bool(expand))))


async def _rendered(
    services: Services, project_id: str, found: Sequence[Offering], expand: Sequence[str]
) -> list[wire.Offering]:
    if not expand:
        return [render.offering(project_id, one) for one in found]
    inside = await usecases.packages_of(services.database, project_id, [one.id for one in found])
    every = [package for one in inside.values() for package in one]
    shown = await rendered_packages(services, project_id, every, products="package.product" in expand)
    return render.whole_offerings(project_id, found, inside, shown)


class NewPlacement(Body):
    id: Id
    display_name: Name | None = None
    offering_id: AnyId | None = None
    is_fallback: bool = False


class PlacementChanges(Body):
    display_name: Name = not_null()
    offering_id: AnyId | None = None
    is_fallback: bool = not_null()


@router.post("/placements", responses=shows(wire.Placement, 201), status_code=201)
@audited("placement.created")
async def create_placement(services: Provided, caller: WriteKey, new: NewPlacement) -> Response:
    """Create a placement. Without an offering nothing is offered there."""
    made = await usecases.create_placement(services.database, caller.project_id, **new.model_dump(), now=services.now())
    return reply(render.placement(caller.project_id, made), 201)


@router.get("/placements", responses=shows(Page[wire.Placement]))
async def list_placements(services: Provided, caller: ReadKey, paging: Paging) -> Response:
    """The project's placements, by id."""
    found = await usecases.list_placements(services.database, caller.project_id, *paging.window)
    return reply(paging.of([render.placement(caller.project_id, placement) for placement in found]))


@router.get("/placements/{placement_id}", responses=shows(wire.Placement))
async def read_placement(services: Provided, caller: ReadKey, placement_id: str) -> Response:
    """One placement."""
    found = await usecases.load_placement(services.database, caller.project_id, placement_id)
    return reply(render.placement(caller.project_id, found))


@router.patch("/placements/{placement_id}", responses=shows(wire.Placement))
@router.post("/placements/{placement_id}", responses=shows(wire.Placement))
@audited("placement.updated")
async def update_placement(
    services: Provided, caller: WriteKey, placement_id: str, changes: PlacementChanges
) -> Response:
    """Change the given fields. A new fallback replaces the one before."""
    given = changes.model_dump(exclude_unset=True)
    changed = await usecases.update_placement(services.database, caller.project_id, placement_id, given)
    return reply(render.placement(caller.project_id, changed))


@router.delete("/placements/{placement_id}", responses=shows(Deleted))
@audited("placement.deleted")
async def delete_placement(services: Provided, caller: WriteKey, placement_id: str) -> Response:
    """Delete a placement. Apps that ask for it then show the fallback."""
    await usecases.delete_placement(services.database, caller.project_id, placement_id)
    return reply(Deleted(object="placement", id=placement_id, deleted_at=services.now()))


v1_router = Router(tags=["V1 subscribers"])

_MAJOR = re.compile(rb"(\d{1,4})\.")


@v1_router.get("/v1/subscribers/{app_user_id}/offerings", responses=shows(Offerings))
async def read_offerings(request: Request, services: Provided, caller: AppReadKey, app_user_id: PathUserId) -> Response:
    """The offerings of the key's app, with the app's product in each package. A secret key belongs to no app and sees
    every offering. The user need not exist."""
    place = AskingApp(caller.app_id, caller.store, _android_sdk(request.scope[SCOPE_KEY]))
    found = await load_storefront(services.changes, caller.project_id, place, app_user_id)
    return reply(render.storefront(found))


def _android_sdk(exchange: Exchange) -> int | None:
    """The major version of the Android SDK that asks."""
    if exchange.headers.get(b"x-platform", b"").lower() != b"android":
        return None
    version = _MAJOR.match(exchange.headers.get(b"x-version", b""))
    return int(version[1]) if version else None


@v1_router.post(
    "/v1/subscribers/{app_user_id}/offerings/{offering_id}/override",
    responses=shows(SubscriberResponse, 201),
    status_code=201,
)
@audited("customer.offering_assigned")
async def override_offering(
    request: Request, services: Provided, caller: SecretWriteKey, app_user_id: PathUserId, offering_id: str
) -> Response:
    """Show this offering to the user as the current one. An unknown user is created."""
    await assign_offering(services.changes, caller.project_id, app_user_id, offering_id, create=True)
    return await subscriber_reply(request, services, caller, app_user_id, 201)


@v1_router.delete(
    "/v1/subscribers/{app_user_id}/offerings/override", responses=shows(SubscriberResponse, 201), status_code=201
)
@audited("customer.offering_cleared")
async def clear_override(
    request: Request, services: Provided, caller: SecretWriteKey, app_user_id: PathUserId
) -> Response:
    """Show the project's current offering to the user again."""
    await clear_offering(services.changes, caller.project_id, app_user_id)
    return await subscriber_reply(request, services, caller, app_user_id, 201)
