"""The offer codes that customers have redeemed. Beyond the vendor's API."""

from latchkey.http.authentication import ReadKey
from latchkey.http.models import Paging
from latchkey.http.routing import Response, Router, reply, shows
from latchkey.subjects.offer_codes import usecases, wire
from latchkey.wire.attributes import from_attributes
from latchkey.wire.v2 import Page

router = Router(prefix="/v2/projects/{project_id}", tags=["V2 offerings"])


@router.get("/offer_codes", responses=shows(Page[wire.OfferCode]))
async def list_offer_codes(call: ReadKey, paging: Paging) -> Response:
    """The offer codes of stores that customers have redeemed with a purchase, the newest first."""
    found = await call.run(usecases.list_codes, *paging.window)
    return reply(paging.of([from_attributes(wire.OfferCode, code, project_id=call.project_id) for code in found]))
