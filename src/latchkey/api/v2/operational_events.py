"""Operational events for the operator."""

from __future__ import annotations

from starlette.responses import Response

from latchkey.api.authentication import ReadKey
from latchkey.api.models import Paging
from latchkey.api.routing import Router, reply, shows
from latchkey.api.services import Provided
from latchkey.usecases.rendering.management import project_path
from latchkey.usecases.rendering.v2 import page
from latchkey.usecases.webhooks import rendering as render
from latchkey.usecases.webhooks.log import page_of_operational_events
from latchkey.wire import webhooks as wire
from latchkey.wire.v2 import Page

router = Router(prefix="/v2/projects/{project_id}/operational_events", tags=["V2 operational events"])


@router.get("", responses=shows(Page[wire.OperationalEvent]))
async def list_operational_events(services: Provided, caller: ReadKey, paging: Paging) -> Response:
    """Webhooks that began to fail, were paused, or work again, and exports that failed or work again; newest first."""
    found = await page_of_operational_events(
        services.database, caller.project_id, after=paging.after, limit=paging.limit + 1
    )
    path = project_path(caller.project_id, "operational_events")
    return reply(page([render.operational_event(one) for one in found], lambda item: item.id, path, paging.limit, None))
