"""The team of a project, and its audit log."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from latchkey.api.authentication import ReadKey
from latchkey.api.models import Limit, StartingAfter
from latchkey.api.replies import reply, shows
from latchkey.api.routing import Router
from latchkey.api.services import Provided
from latchkey.domain.instants import LATEST, Ms
from latchkey.domain.refusal import NotFound
from latchkey.usecases.access import audit, team
from latchkey.usecases.rendering import administration as render
from latchkey.usecases.rendering.management import listed
from latchkey.usecases.rendering.v2 import DEFAULT_LIMIT
from latchkey.wire import administration as wire
from latchkey.wire.v2 import Page

router = Router(prefix="/v2/projects/{project_id}", tags=["V2 project"])

Day = Annotated[date | None, Query(description="A day, as 2027-01-31 (UTC). Both days are included.")]


@router.get("/audit_logs", responses=shows(Page[wire.AuditLog]), response_class=Response)
async def list_audit_logs(
    services: Provided,
    caller: ReadKey,
    limit: Limit = DEFAULT_LIMIT,
    starting_after: StartingAfter = None,
    start_date: Day = None,
    end_date: Day = None,
) -> Response:
    """Every change in the project, newest first: by members, by API keys and by the command line."""
    before = None
    if starting_after is not None and (before := render.position_of(starting_after)) is None:
        raise NotFound(f"There is no entry {starting_after!r} to start after.", param="starting_after")
    since, until = _midnight(start_date) if start_date else 0, _midnight(end_date, 1) if end_date else LATEST
    found = await audit.between(
        services.database, caller.project_id, before=before, since=since, until=until, limit=limit + 1
    )
    days = {"start_date": start_date, "end_date": end_date}
    filters = {name: day.isoformat() for name, day in days.items() if day is not None}
    path = caller.project_id, "audit_logs"
    return reply(listed(found, render.audit_log, lambda item: item.id, limit, *path, filters=filters))


@router.get("/collaborators", responses=shows(Page[wire.Collaborator]), response_class=Response)
async def list_collaborators(
    services: Provided, caller: ReadKey, limit: Limit = DEFAULT_LIMIT, starting_after: StartingAfter = None
) -> Response:
    """The members of the project, in the order in which they joined."""
    members = await team.members(services.database, caller.project_id)
    if starting_after is not None:
        ids = [one.account.id for one in members]
        if starting_after not in ids:
            raise NotFound(f"There is no collaborator {starting_after!r} to start after.", param="starting_after")
        members = members[ids.index(starting_after) + 1 :]
    path = caller.project_id, "collaborators"
    return reply(listed(members, render.collaborator, lambda item: item.id, limit, *path))


def _midnight(day: date, later: int = 0) -> Ms:
    """The beginning of a day, or of a later one, in UTC."""
    try:
        begun = datetime.combine(day + timedelta(days=later), time(), UTC)
    except OverflowError:
        return LATEST
    return min(int(begun.timestamp()) * 1000, LATEST)
