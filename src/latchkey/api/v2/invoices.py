"""A customer's invoices."""

from __future__ import annotations

from starlette.responses import Response

from latchkey.api.authentication import ReadKey
from latchkey.api.models import Limit, PathUserId, StartingAfter
from latchkey.api.replies import reply, shows
from latchkey.api.routing import Router
from latchkey.api.services import Provided
from latchkey.api.v2.customers import view_of
from latchkey.usecases.ledger import finding
from latchkey.usecases.rendering import ledger as render
from latchkey.usecases.rendering.v2 import DEFAULT_LIMIT
from latchkey.wire import ledger as wire
from latchkey.wire.v2 import Page

router = Router(prefix="/v2/projects/{project_id}/customers/{customer_id}", tags=["V2 subscriptions and purchases"])


@router.get("/invoices", responses=shows(Page[wire.Invoice]), response_class=Response)
async def list_invoices(
    services: Provided,
    caller: ReadKey,
    customer_id: PathUserId,
    limit: Limit = DEFAULT_LIMIT,
    starting_after: StartingAfter = None,
) -> Response:
    """The invoices that stores have issued to the customer, by id: each was an INVOICE_ISSUANCE event. The App Store
    and Google Play issue none to their developers."""
    view = await view_of(services, caller.project_id, customer_id)
    return reply(render.invoices(view, await finding.invoices_of(services, view), limit, starting_after))
