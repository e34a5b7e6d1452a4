"""An offering for one customer, whatever the current offering is."""

from __future__ import annotations

from starlette.responses import Response

from latchkey.api.audited import audited
from latchkey.api.authentication import WriteKey
from latchkey.api.models import AnyId, Body, PathUserId
from latchkey.api.routing import Router
from latchkey.api.services import Provided
from latchkey.usecases.catalog.overrides import assign_offering, clear_offering

router = Router(prefix="/v2/projects/{project_id}/customers", tags=["V2 customers"])


class Assignment(Body):
    """Null: the customer sees the current offering again."""

    offering_id: AnyId | None


@router.post(
    "/{customer_id}/actions/assign_offering",
    responses={200: {"description": "Done. There is no body."}},
    response_class=Response,
)
@audited("customer.offering_assigned")
async def assign(services: Provided, caller: WriteKey, customer_id: PathUserId, new: Assignment) -> Response:
    """Show this offering to the customer as the current one."""
    if new.offering_id is None:
        await clear_offering(services.changes, caller.project_id, customer_id)
    else:
        await assign_offering(services.changes, caller.project_id, customer_id, new.offering_id)
    return Response()
