"""The project itself, its team and its audit log."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Literal

from fastapi import Query
from starlette.responses import Response

from latchkey.domain.customers.identity import RestoreBehavior
from latchkey.domain.instants import LATEST, Ms
from latchkey.domain.naming import LONGEST_NAME
from latchkey.domain.pages import items_after
from latchkey.domain.refusal import NotFound
from latchkey.engine.storage.catalog import app_rows as projects_rules
from latchkey.http.audited import audited
from latchkey.http.authentication import ReadKey, SecretReadKey, SecretWriteKey, WriteKey
from latchkey.http.errors import Forbidden
from latchkey.http.models import Body, Name, Paging, not_null
from latchkey.http.routing import Router, reply, shows
from latchkey.http.services import Provided
from latchkey.subjects.accounts.usecases import team
from latchkey.subjects.accounts.usecases.team import create_beside
from latchkey.subjects.api_keys import render as api_keys_render
from latchkey.subjects.api_keys import usecases as api_keys
from latchkey.subjects.audit import render as audit_render
from latchkey.subjects.audit import usecases as audit
from latchkey.subjects.audit import wire as audit_wire
from latchkey.subjects.projects import render, usecases, wire
from latchkey.wire.v2 import Page

router = Router(prefix="/v2/projects", tags=["V2 project"])


class NewProject(Body):
    name: Name


class ProjectChanges(Body):
    name: Name = not_null()
    restore_behavior: Literal["transfer", "keep", "transfer_if_no_active_subscriptions"] = not_null()
    test_store: projects_rules.TestStore = not_null()


@router.get("", responses=shows(Page[wire.Project]))
async def list_projects(services: Provided, caller: SecretReadKey, paging: Paging) -> Response:
    """The projects of this key: a key belongs to one project, so this lists one."""
    found = render.project(await usecases.load_project(services.database, caller.project_id))
    return reply(paging.of([] if paging.after == found.id else [found]))


@router.post("", responses=shows(wire.Project))
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
    issued = await api_keys.create_secret_key(
        services.database,
        made.id,
        f"made with {made.name}"[:LONGEST_NAME],
        now,
        rate_limit=min(api_keys.RATE_LIMIT, caller.rate_limit),
        expires_at=rules.expires_at if rules is not None else None,
        allowed_networks=rules.networks if rules is not None else (),
    )
    return reply(render.project(made, api_keys_render.api_key(made.id, issued.key, issued.plaintext)))


@router.get("/{project_id}", responses=shows(wire.Project))
async def read_project(services: Provided, caller: ReadKey) -> Response:
    """The project and its settings."""
    return reply(render.project(await usecases.load_project(services.database, caller.project_id)))


@router.patch("/{project_id}", responses=shows(wire.Project))
@audited("project.changed")
async def update_project(services: Provided, caller: WriteKey, changes: ProjectChanges) -> Response:
    """Change the given fields. `restore_behavior` decides what happens when another customer restores a purchase. A
    closed `test_store` refuses new test purchases and does not renew existing ones."""
    behavior = RestoreBehavior(changes.restore_behavior) if "restore_behavior" in changes.model_fields_set else None
    changed = await usecases.update_project(
        services.database,
        caller.project_id,
        name=changes.name,
        restore_behavior=behavior,
        test_store=changes.test_store,
    )
    return reply(render.project(changed))


Day = Annotated[date | None, Query(description="A day, as 2027-01-31 (UTC). Both days are included.")]


@router.get("/{project_id}/audit_logs", responses=shows(Page[audit_wire.AuditLog]))
async def list_audit_logs(
    services: Provided, caller: ReadKey, paging: Paging, start_date: Day = None, end_date: Day = None
) -> Response:
    """Every change in the project, newest first: by members, by API keys and by the command line."""
    before = None
    if paging.after is not None and (before := audit_render.position_of(paging.after)) is None:
        raise NotFound(f"There is no entry {paging.after!r} to start after.", param="starting_after")
    since, until = _midnight(start_date) if start_date else 0, _midnight(end_date, 1) if end_date else LATEST
    found = await audit.between(
        services.database, caller.project_id, before=before, since=since, until=until, limit=paging.limit + 1
    )
    days = {"start_date": start_date, "end_date": end_date}
    filters = {name: day.isoformat() for name, day in days.items() if day is not None}
    return reply(paging.of([audit_render.audit_log(caller.project_id, entry) for entry in found], filters=filters))


@router.get("/{project_id}/collaborators", responses=shows(Page[wire.Collaborator]))
async def list_collaborators(services: Provided, caller: ReadKey, paging: Paging) -> Response:
    """The members of the project, in the order in which they joined."""
    members = await team.members(services.database, caller.project_id)
    following = items_after(paging.after, members, "collaborator", lambda member: member.account.id)
    return reply(paging.of([render.collaborator(member) for member in following]))


def _midnight(day: date, later: int = 0) -> Ms:
    """The beginning of a day, or of a later one, in UTC."""
    try:
        begun = datetime.combine(day + timedelta(days=later), time(), UTC)
    except OverflowError:
        return LATEST
    return min(int(begun.timestamp()) * 1000, LATEST)
