"""The packages of offerings, and the products in them."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import Field

from latchkey.domain.catalog import Eligibility, Offering, Package
from latchkey.http.authentication import Call, OfferingsKey, ReadKey, SecretWriteKey, WriteKey
from latchkey.http.exchange import Exchange
from latchkey.http.hot_reads import subscriber_reply, visit_of
from latchkey.http.models import NO_ITEMS, AnyId, Body, Id, LookupKey, Name, Paging, PathUserId, not_null
from latchkey.http.routing import Response, Router, reply, shows
from latchkey.subjects.customers.wire import Deleted
from latchkey.subjects.offerings import render, usecases, wire
from latchkey.subjects.offerings.rules import AskingApp
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
async def read_package(call: ReadKey, package_id: str, expand: PackagesExpand = NO_ITEMS) -> Response:
    """One package."""
    found = await call.run(usecases.load_package, package_id)
    return reply(render.package(call.project_id, found, await _products(call, [found], shown=bool(expand))))


@router.updates("/packages/{package_id}", wire.Package, "package.updated")
async def update_package(call: WriteKey, package_id: str, changes: PackageChanges) -> Response:
    """Rename a package, or move it to another position. The others move on."""
    changed = await call.run(usecases.update_package, package_id, **changes.model_dump())
    return reply(render.package(call.project_id, changed))


@router.deletes("/packages/{package_id}", Deleted, "package.deleted")
async def delete_package(call: WriteKey, package_id: str) -> Response:
    """Delete a package. Its products stay in the catalog."""
    await call.run(usecases.delete_package, package_id)
    return reply(Deleted(object="package", id=package_id, deleted_at=call.now()))


@router.get("/packages/{package_id}/products", responses=shows(Page[wire.PackageProduct]))
async def list_products_of_package(call: ReadKey, package_id: str, paging: Paging) -> Response:
    """The products of a package, in the order of attaching. An app shows the first that is sold in it. A deleted one
    has `deleted_at`, and no app shows it."""
    found = await call.run(usecases.list_products, package_id, *paging.window)
    items = [render.attached(call.project_id, attached) for attached in found]
    return reply(paging.of(items, lambda item: item.product.id))


@router.acts("/packages/{package_id}/actions/attach_products", wire.Package, "package.products_attached")
async def attach_products(call: WriteKey, package_id: str, named: NewAssociations) -> Response:
    """Put these products into the package, one for each app in which it is sold."""
    attached = {product.product_id: Eligibility(product.eligibility_criteria) for product in named.products}
    return reply(render.package(call.project_id, await call.run(usecases.attach_products, package_id, attached)))


@router.acts("/packages/{package_id}/actions/detach_products", wire.Package, "package.products_detached")
async def detach_products(call: WriteKey, package_id: str, named: PackageProductIds) -> Response:
    """Take these products out of the package. They stay in the catalog."""
    changed = await call.run(usecases.detach_products, package_id, named.product_ids)
    return reply(render.package(call.project_id, changed))


async def _products(call: Call, found: Sequence[Package], *, shown: bool) -> render.Products:
    return await call.run(usecases.products_of, [one.id for one in found]) if shown else None


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


@router.creates("/offerings", wire.Offering, "offering.created")
async def create_offering(call: WriteKey, new: NewOffering) -> Response:
    """Create an offering. The first one of a project is the current one."""
    made = await call.run(usecases.create_offering, **new.model_dump(), now=call.now())
    return reply(render.offering(call.project_id, made), 201)


@router.get("/offerings", responses=shows(Page[wire.Offering]))
async def list_offerings(call: ReadKey, paging: Paging, expand: ExpandItems = NO_ITEMS) -> Response:
    """The project's offerings, oldest first."""
    found = await call.run(usecases.list_offerings, *paging.window)
    inside = [name.removeprefix("items.") for name in expand]
    return reply(paging.of(await _rendered(call, found, inside)))


@router.get("/offerings/{offering_id}", responses=shows(wire.Offering))
async def read_offering(call: ReadKey, offering_id: str, expand: OfferingsExpand = NO_ITEMS) -> Response:
    """One offering."""
    return reply((await _rendered(call, [await call.run(usecases.load_offering, offering_id)], expand))[0])


@router.updates("/offerings/{offering_id}", wire.Offering, "offering.updated")
async def update_offering(call: WriteKey, offering_id: str, changes: OfferingChanges) -> Response:
    """Change the given fields of an offering. A new current offering replaces the one before."""
    given = changes.model_dump(exclude_unset=True)
    return reply(render.offering(call.project_id, await call.run(usecases.update_offering, offering_id, **given)))


@router.deletes("/offerings/{offering_id}", Deleted, "offering.deleted")
async def delete_offering(call: WriteKey, offering_id: str) -> Response:
    """Delete an offering with its packages. Refused while it is the current one, or a placement, an experiment or a
    targeting rule shows it."""
    await call.run(usecases.delete_offering, offering_id)
    return reply(Deleted(object="offering", id=offering_id, deleted_at=call.now()))


@router.creates("/offerings/{offering_id}/packages", wire.Package, "package.created")
async def create_package(call: WriteKey, offering_id: str, new: NewPackage) -> Response:
    """Create a package, at the given position or at the end. Names such as `$rc_monthly` have a meaning to the SDKs."""
    made = await call.run(usecases.create_package, offering_id, **new.model_dump(), now=call.now())
    return reply(render.package(call.project_id, made), 201)


@router.get("/offerings/{offering_id}/packages", responses=shows(Page[wire.Package]))
async def list_packages(call: ReadKey, offering_id: str, paging: Paging, expand: ExpandProducts = NO_ITEMS) -> Response:
    """The packages of an offering, in order."""
    found = await call.run(usecases.list_packages, offering_id, *paging.window)
    products = await _products(call, found, shown=bool(expand))
    return reply(paging.of([render.package(call.project_id, one, products) for one in found]))


async def _rendered(call: Call, found: Sequence[Offering], expand: Sequence[str]) -> list[wire.Offering]:
    inside = await call.run(usecases.packages_of, [one.id for one in found]) if expand else {}
    every = [package for packages in inside.values() for package in packages]
    products = await _products(call, every, shown="package.product" in expand)
    return [render.offering(call.project_id, one, inside.get(one.id), products) for one in found]


class NewPlacement(Body):
    id: Id
    display_name: Name | None = None
    offering_id: AnyId | None = None
    is_fallback: bool = False


class PlacementChanges(Body):
    display_name: Name = not_null()
    offering_id: AnyId | None = None
    is_fallback: bool = not_null()


@router.creates("/placements", wire.Placement, "placement.created")
async def create_placement(call: WriteKey, new: NewPlacement) -> Response:
    """Create a placement. Without an offering nothing is offered there."""
    made = await call.run(usecases.create_placement, **new.model_dump(), now=call.now())
    return reply(render.placement(call.project_id, made), 201)


@router.get("/placements", responses=shows(Page[wire.Placement]))
async def list_placements(call: ReadKey, paging: Paging) -> Response:
    """The project's placements, by id."""
    found = await call.run(usecases.list_placements, *paging.window)
    return reply(paging.of([render.placement(call.project_id, placement) for placement in found]))


@router.get("/placements/{placement_id}", responses=shows(wire.Placement))
async def read_placement(call: ReadKey, placement_id: str) -> Response:
    """One placement."""
    return reply(render.placement(call.project_id, await call.run(usecases.load_placement, placement_id)))


@router.updates("/placements/{placement_id}", wire.Placement, "placement.updated")
async def update_placement(call: WriteKey, placement_id: str, changes: PlacementChanges) -> Response:
    """Change the given fields of a placement. A new fallback replaces the one before."""
    given = changes.model_dump(exclude_unset=True)
    return reply(render.placement(call.project_id, await call.run(usecases.update_placement, placement_id, **given)))


@router.deletes("/placements/{placement_id}", Deleted, "placement.deleted")
async def delete_placement(call: WriteKey, placement_id: str) -> Response:
    """Delete a placement. Apps that ask for it then show the fallback."""
    await call.run(usecases.delete_placement, placement_id)
    return reply(Deleted(object="placement", id=placement_id, deleted_at=call.now()))


v1_router = Router(tags=["V1 subscribers"])

_MAJOR = re.compile(rb"(\d{1,4})\.")


@v1_router.get("/v1/subscribers/{app_user_id}/offerings", responses=shows(wire.Offerings))
async def read_offerings(call: OfferingsKey, app_user_id: PathUserId) -> Response:
    """The offerings of the key's app, with the app's product in each package. A secret key belongs to no app and sees
    every offering. The user need not exist. `targeting` names the rule that has chosen the current offering."""
    place = AskingApp(call.caller.app_id, call.caller.store, _android_sdk(call.exchange))
    visit = visit_of(call.exchange.headers, call.now(), always=call.caller.is_public)
    found = await usecases.load_storefront(call.changes, call.project_id, place, app_user_id, call.now(), visit)
    return reply(render.storefront(found))


def _android_sdk(exchange: Exchange) -> int | None:
    """The major version of the Android SDK that asks."""
    if exchange.headers.get(b"x-platform", b"").lower() != b"android":
        return None
    version = _MAJOR.match(exchange.headers.get(b"x-version", b""))
    return int(version[1]) if version else None


@v1_router.creates(
    "/v1/subscribers/{app_user_id}/offerings/{offering_id}/override", SubscriberResponse, "customer.offering_assigned"
)
async def override_offering(call: SecretWriteKey, app_user_id: PathUserId, offering_id: str) -> Response:
    """Show this offering to the user as the current one. An unknown user is created."""
    await usecases.assign_offering(call.changes, call.project_id, app_user_id, offering_id, create=True)
    return await subscriber_reply(call, app_user_id, 201)


@v1_router.deletes(
    "/v1/subscribers/{app_user_id}/offerings/override", SubscriberResponse, "customer.offering_cleared", status=201
)
async def clear_override(call: SecretWriteKey, app_user_id: PathUserId) -> Response:
    """Show the project's current offering to the user again."""
    await usecases.clear_offering(call.changes, call.project_id, app_user_id)
    return await subscriber_reply(call, app_user_id, 201)
