"""The placements of a project: which offering its apps show where."""

from __future__ import annotations

from starlette.responses import Response

from latchkey.api.audited import audited
from latchkey.api.authentication import ReadKey, WriteKey
from latchkey.api.models import AnyId, Body, Id, Name, Paging, not_null
from latchkey.api.routing import Router, reply, shows
from latchkey.api.services import Provided
from latchkey.usecases.catalog import placements
from latchkey.usecases.rendering import management
from latchkey.usecases.rendering import offerings as render
from latchkey.wire import management as wire
from latchkey.wire.actions import Deleted
from latchkey.wire.v2 import Page

router = Router(prefix="/v2/projects/{project_id}/placements", tags=["V2 offerings"])


class NewPlacement(Body):
    id: Id
    display_name: Name | None = None
    offering_id: AnyId | None = None
    is_fallback: bool = False


class PlacementChanges(Body):
    display_name: Name = not_null()
    offering_id: AnyId | None = None
    is_fallback: bool = not_null()


@router.post("", responses=shows(wire.Placement, 201), status_code=201)
@audited("placement.created")
async def create_placement(services: Provided, caller: WriteKey, new: NewPlacement) -> Response:
    """Create a placement. Without an offering nothing is offered there."""
    made = await placements.create_placement(
        services.database,
        caller.project_id,
        new.id,
        new.display_name,
        new.offering_id,
        is_fallback=new.is_fallback,
        now=services.now(),
    )
    return reply(render.placement(caller.project_id, made), 201)


@router.get("", responses=shows(Page[wire.Placement]))
async def list_placements(services: Provided, caller: ReadKey, paging: Paging) -> Response:
    """The project's placements, by id."""
    found = await placements.list_placements(
        services.database, caller.project_id, after=paging.after, limit=paging.limit + 1
    )
    path = caller.project_id, "placements"
    return reply(management.listed(found, render.placement, lambda item: item.id, paging.limit, *path))


@router.get("/{placement_id}", responses=shows(wire.Placement))
async def read_placement(services: Provided, caller: ReadKey, placement_id: str) -> Response:
    """One placement."""
    found = await placements.load_placement(services.database, caller.project_id, placement_id)
    return reply(render.placement(caller.project_id, found))


@router.patch("/{placement_id}", responses=shows(wire.Placement))
@router.post("/{placement_id}", responses=shows(wire.Placement))
@audited("placement.updated")
async def update_placement(
    services: Provided, caller: WriteKey, placement_id: str, changes: PlacementChanges
) -> Response:
    """Change the given fields. A new fallback replaces the one before."""
    given = {name: getattr(changes, name) for name in changes.model_fields_set}
    changed = await placements.update_placement(services.database, caller.project_id, placement_id, given)
    return reply(render.placement(caller.project_id, changed))


@router.delete("/{placement_id}", responses=shows(Deleted))
@audited("placement.deleted")
async def delete_placement(services: Provided, caller: WriteKey, placement_id: str) -> Response:
    """Delete a placement. Apps that ask for it then show the fallback."""
    await placements.delete_placement(services.database, caller.project_id, placement_id)
    return reply(Deleted(object="placement", id=placement_id, deleted_at=services.now()))
