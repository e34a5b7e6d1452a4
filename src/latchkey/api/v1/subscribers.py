"""Reading a V1 subscriber."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from latchkey.api.authentication import documented
from latchkey.api.exchange import READS_KEY, SCOPE_KEY
from latchkey.api.models import PathUserId
from latchkey.api.reads import V1_ROUTE
from latchkey.api.replies import shows
from latchkey.api.routing import Router
from latchkey.wire.v1 import SubscriberResponse

router = Router(tags=["V1 subscribers"])


@router.get(
    V1_ROUTE,
    responses=shows(SubscriberResponse) | shows(SubscriberResponse, 201, "Created"),
    response_class=Response,
    dependencies=[documented],
)
async def read_subscriber(request: Request, app_user_id: PathUserId) -> Response:
    """The subscriber with this id or alias. An unknown id is created, with any key that may read."""
    status, body = await request.scope[READS_KEY].subscriber(request.scope[SCOPE_KEY], app_user_id)
    return Response(body, status, media_type="application/json")
