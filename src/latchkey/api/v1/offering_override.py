"""An offering for one user, whatever the current offering is."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from latchkey.api.audited import audited
from latchkey.api.authentication import SecretWriteKey
from latchkey.api.models import PathUserId
from latchkey.api.replies import shows
from latchkey.api.routing import Router
from latchkey.api.services import Provided
from latchkey.api.v1.reply import subscriber_reply
from latchkey.usecases.catalog.overrides import assign_offering, clear_offering
from latchkey.wire.v1 import SubscriberResponse

router = Router(prefix="/v1/subscribers/{app_user_id}/offerings", tags=["V1 subscribers"])


@router.post(
    "/{offering_id}/override", responses=shows(SubscriberResponse, 201), status_code=201, response_class=Response
)
@audited("customer.offering_assigned")
async def override_offering(
    request: Request, services: Provided, caller: SecretWriteKey, app_user_id: PathUserId, offering_id: str
) -> Response:
    """Show this offering to the user as the current one. An unknown user is created."""
    await assign_offering(services.changes, caller.project_id, app_user_id, offering_id, create=True)
    return await subscriber_reply(request, services, caller, app_user_id, 201)


@router.delete("/override", responses=shows(SubscriberResponse, 201), status_code=201, response_class=Response)
@audited("customer.offering_cleared")
async def clear_override(
    request: Request, services: Provided, caller: SecretWriteKey, app_user_id: PathUserId
) -> Response:
    """Show the project's current offering to the user again."""
    await clear_offering(services.changes, caller.project_id, app_user_id)
    return await subscriber_reply(request, services, caller, app_user_id, 201)
