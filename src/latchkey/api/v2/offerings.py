"""The offerings of a project, and the packages in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import Query
from starlette.responses import Response

from latchkey.api.audited import audited
from latchkey.api.authentication import ReadKey, WriteKey
from latchkey.api.models import Body, LookupKey, Name, Paging, not_null
from latchkey.api.routing import Router, reply, shows
from latchkey.api.services import Provided
from latchkey.api.v2.packages import NewPackage, rendered_packages
from latchkey.usecases.catalog import offerings, packages
from latchkey.usecases.rendering import management
from latchkey.usecases.rendering import offerings as render
from latchkey.usecases.services import Services
from latchkey.wire import management as wire
from latchkey.wire.actions import Deleted
from latchkey.wire.v2 import Page

router = Router(prefix="/v2/projects/{project_id}/offerings", tags=["V2 offerings"])

Expand = Annotated[list[Literal["package", "package.product"]], Query(description="What to show inside each item.")]
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


@router.post("", responses=shows(wire.Offering, 201), status_code=201)
@audited("offering.created")
async def create_offering(services: Provided, caller: WriteKey, new: NewOffering) -> Response:
    """Create an offering. The first one of a project is the current one."""
    made = await offerings.create_offering(
        services.database, caller.project_id, new.lookup_key, new.display_name, new.metadata, services.now()
    )
    return reply(render.offering(caller.project_id, made), 201)


@router.get("", responses=shows(Page[wire.Offering]))
async def list_offerings(
    services: Provided,
    caller: ReadKey,
    paging: Paging,
    expand: ExpandItems = [],  # noqa: B006 - FastAPI copies it
) -> Response:
    """The project's offerings, oldest first."""
    found = await offerings.list_offerings(
        services.database, caller.project_id, after=paging.after, limit=paging.limit + 1
    )
    shown = await _rendered(services, caller.project_id, found, [one.removeprefix("items.") for one in expand])
    path = caller.project_id, "offerings"
    return reply(management.listed(shown, lambda _, one: one, lambda item: item.id, paging.limit, *path))


@router.get("/{offering_id}", responses=shows(wire.Offering))
async def read_offering(
    services: Provided,
    caller: ReadKey,
    offering_id: str,
    expand: Expand = [],  # noqa: B006 - FastAPI copies it
) -> Response:
    """One offering."""
    found = await offerings.load_offering(services.database, caller.project_id, offering_id)
    return reply((await _rendered(services, caller.project_id, [found], expand))[0])


@router.patch("/{offering_id}", responses=shows(wire.Offering))
@router.post("/{offering_id}", responses=shows(wire.Offering))
@audited("offering.updated")
async def update_offering(services: Provided, caller: WriteKey, offering_id: str, changes: OfferingChanges) -> Response:
    """Change the given fields. A new current offering replaces the one before."""
    given = {name: getattr(changes, name) for name in changes.model_fields_set}
    changed = await offerings.update_offering(services.database, caller.project_id, offering_id, given)
    return reply(render.offering(caller.project_id, changed))


@router.delete("/{offering_id}", responses=shows(Deleted))
@audited("offering.deleted")
async def delete_offering(services: Provided, caller: WriteKey, offering_id: str) -> Response:
    """Delete an offering with its packages. Refused while it is the current one, or a placement or an experiment shows
    it."""
    await offerings.delete_offering(services.database, caller.project_id, offering_id)
    return reply(Deleted(object="offering", id=offering_id, deleted_at=services.now()))


@router.post("/{offering_id}/packages", responses=shows(wire.Package, 201), status_code=201)
@audited("package.created")
async def create_package(services: Provided, caller: WriteKey, offering_id: str, new: NewPackage) -> Response:
    """Create a package, at the given position or at the end. Names such as `$rc_monthly` have a meaning to the SDKs."""
    made = await packages.create_package(
        services.database,
        caller.project_id,
        offering_id,
        new.lookup_key,
        new.display_name,
        new.position,
        services.now(),
    )
    return reply(render.package(made), 201)


@router.get("/{offering_id}/packages", responses=shows(Page[wire.Package]))
async def list_packages(
    services: Provided,
    caller: ReadKey,
    offering_id: str,
    paging: Paging,
    expand: ExpandProducts = [],  # noqa: B006 - FastAPI copies it
) -> Response:
    """The packages of an offering, in order."""
    found = await packages.list_packages(
        services.database, caller.project_id, offering_id, after=paging.after, limit=paging.limit + 1
    )
    shown = await rendered_packages(services, caller.project_id, found, products=bool(expand))
    path = caller.project_id, "offerings", offering_id, "packages"
    return reply(management.listed(shown, lambda _, one: one, lambda item: item.id, paging.limit, *path))


async def _rendered(
    services: Services, project_id: str, found: Sequence[offerings.Offering], expand: Sequence[str]
) -> list[wire.Offering]:
    if not expand:
        return [render.offering(project_id, one) for one in found]
    inside = await packages.packages_of(services.database, project_id, [one.id for one in found])
    every = [package for one in inside.values() for package in one]
    shown = await rendered_packages(services, project_id, every, products="package.product" in expand)
    by_id = {one.id: one for one in shown}
    return [
        render.offering(
            project_id,
            one,
            render.whole_packages(project_id, one.id, [by_id[package.id] for package in inside[one.id]]),
        )
        for one in found
    ]
