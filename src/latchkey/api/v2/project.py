"""The project itself."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from starlette.responses import Response

from latchkey.api.audited import audited
from latchkey.api.authentication import ReadKey, WriteKey
from latchkey.api.models import Body, Name, not_null
from latchkey.api.replies import reply, shows
from latchkey.api.services import Provided
from latchkey.domain.customers.identity import RestoreBehavior
from latchkey.usecases.access import projects
from latchkey.usecases.rendering import management as render
from latchkey.wire import management as wire

router = APIRouter(prefix="/v2/projects", tags=["V2 project"])


class ProjectChanges(Body):
    name: Name = not_null()
    restore_behavior: Literal["transfer", "keep", "transfer_if_no_active_subscriptions"] = not_null()
    test_store: projects.TestStore = not_null()


@router.get("/{project_id}", responses=shows(wire.Project), response_class=Response)
async def read_project(services: Provided, caller: ReadKey) -> Response:
    """The project and its settings."""
    return reply(render.project(await projects.load_project(services.database, caller.project_id)))


@router.patch("/{project_id}", responses=shows(wire.Project), response_class=Response)
@audited("project.changed")
async def update_project(services: Provided, caller: WriteKey, changes: ProjectChanges) -> Response:
    """Change the given fields. `restore_behavior` decides what happens when another customer restores a purchase. A
    closed `test_store` refuses new test purchases and does not renew existing ones."""
    behavior = RestoreBehavior(changes.restore_behavior) if "restore_behavior" in changes.model_fields_set else None
    changed = await projects.update_project(
        services.database,
        caller.project_id,
        name=changes.name,
        restore_behavior=behavior,
        test_store=changes.test_store,
    )
    return reply(render.project(changed))
