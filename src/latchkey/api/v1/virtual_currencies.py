"""The subscriber's virtual currency."""

from __future__ import annotations

from starlette.responses import Response

from latchkey.api.authentication import AppReadKey
from latchkey.api.models import PathUserId
from latchkey.api.replies import reply, shows
from latchkey.api.routing import Router
from latchkey.api.services import Provided
from latchkey.usecases.customers.currency import balances
from latchkey.wire.actions import V1Currencies, V1Currency

router = Router(tags=["V1 subscribers"])


@router.get("/v1/subscribers/{app_user_id}/virtual_currencies", responses=shows(V1Currencies), response_class=Response)
async def read_virtual_currencies(services: Provided, caller: AppReadKey, app_user_id: PathUserId) -> Response:
    """Every currency of the project with this subscriber's balance. To an app's key, an unknown subscriber has 0."""
    # An app may ask this before anything else about a new user.
    held = await balances(services.changes, caller.project_id, app_user_id, unknown_has_none=caller.is_public)
    return reply(
        V1Currencies(
            virtual_currencies={
                one.code: V1Currency(balance=one.balance, code=one.code, name=one.name, description=one.description)
                for one in held
            }
        )
    )
