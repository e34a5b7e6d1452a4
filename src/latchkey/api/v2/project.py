"""The project itself."""

from __future__ import annotations

from typing import Literal

from starlette.responses import Response

from latchkey.api.audited import audited
from latchkey.api.authentication import ReadKey, SecretReadKey, SecretWriteKey, WriteKey
from latchkey.api.errors import Forbidden
from latchkey.api.models import Body, Limit, Name, StartingAfter, not_null
from latchkey.api.replies import reply, shows
from latchkey.api.routing import Router
from latchkey.api.services import Provided
from latchkey.domain.customers.identity import RestoreBehavior
from latchkey.domain.naming import LONGEST_NAME
from latchkey.usecases.access import keys, projects
from latchkey.usecases.access.team import create_beside
from latchkey.usecases.rendering import management as render
from latchkey.usecases.rendering.v2 import DEFAULT_LIMIT, page
from latchkey.wire import management as wire
from latchkey.wire.v2 import Page

router = Router(prefix="/v2/projects", tags=["V2 project"])


class NewProject(Body):
    name: Name


class ProjectChanges(Body):
    name: Name = not_null()
    restore_behavior: Literal["transfer", "keep", "transfer_if_no_active_subscriptions"] = not_null()
    test_store: projects.TestStore = not_null()


@router.get("", responses=shows(Page[wire.Project]), response_class=Response)
async def list_projects(
    services: Provided, caller: SecretReadKey, limit: Limit = DEFAULT_LIMIT, starting_after: StartingAfter = None
) -> Response:
    """The projects of this key: a key belongs to one project, so this lists one."""
    found = render.project(await projects.load_project(services.database, caller.project_id))
    items = [] if starting_after == found.id else [found]
    return reply(page(items, lambda item: item.id, "/v2/projects", limit, None))


@router.post("", responses=shows(wire.Project), response_class=Response)
@audited("project.created")
async def create_project(services: Provided, caller: SecretWriteKey, new: NewProject) -> Response:
    """Create a project with its first secret key, which only this response shows and which works as long, as often and
    from where this key does. The owners of this key's project own it too. Needs the setting `keys_create_projects`."""
    if not services.keys_create_projects:
        raise Forbidden(
            "Keys may not create projects here. The operator creates them with `latchkey project create`, or allows it "
            "with the setting keys_create_projects."
        )
    now = services.now()
    made = await create_beside(services.database, caller.project_id, new.name, now)
    rules = caller.rules
    issued = await keys.create_secret_key(
        services.database,
        made.id,
        f"made with {made.name}"[:LONGEST_NAME],
        now,
        rate_limit=min(keys.RATE_LIMIT, caller.rate_limit),
        expires_at=rules.expires_at if rules is not None else None,
        allowed_networks=rules.networks if rules is not None else (),
    )
    return reply(render.project(made, render.api_key(made.id, issued.key, issued.plaintext)))


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
