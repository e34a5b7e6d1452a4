"""Purchase links, and redeeming what was bought by one."""

from typing import Annotated

from pydantic import ConfigDict, Field

from latchkey.http.authentication import AppWriteKey, Call, ReadKey, WriteKey
from latchkey.http.hot_reads import subscriber_reply
from latchkey.http.models import AnyId, AppBody, AppUserId, Body, Paging, one_of
from latchkey.http.routing import Response, Router, reply, shows
from latchkey.subjects.purchase_links import render, rules, usecases, wire
from latchkey.wire.errors import V1Error
from latchkey.wire.v1 import SubscriberResponse
from latchkey.wire.v2 import Page

router = Router(prefix="/v2/projects/{project_id}/purchase_links", tags=["V2 purchase links"])
v1_router = Router(tags=["V1 for SDKs"])


class NewPurchaseLink(Body):
    """For a product, or for an offering."""

    model_config = ConfigDict(json_schema_extra=one_of(product_id="string", offering_id="string"))

    app_id: AnyId
    product_id: AnyId | None = None
    offering_id: AnyId | None = None


@router.creates("", wire.PurchaseLink, "purchase_link.created")
async def create_purchase_link(call: WriteKey, new: NewPurchaseLink) -> Response:
    """Create a link that sells a product, or the products of an offering, on a page of the app's payment provider."""
    made = await call.run(
        usecases.create_link, new.app_id, call.now(), product_id=new.product_id, offering_id=new.offering_id
    )
    return reply(_shown(call, made), 201)


@router.get("", responses=shows(Page[wire.PurchaseLink]))
async def list_purchase_links(call: ReadKey, paging: Paging) -> Response:
    """The project's purchase links, oldest first, including archived ones."""
    return reply(paging.of([_shown(call, link) for link in await call.run(usecases.list_links, *paging.window)]))


@router.get("/{link_id}", responses=shows(wire.PurchaseLink))
async def read_purchase_link(call: ReadKey, link_id: str) -> Response:
    """One purchase link."""
    return reply(_shown(call, await call.run(usecases.load_link, link_id)))


@router.acts("/{link_id}/actions/archive", wire.PurchaseLink, "purchase_link.archived")
async def archive_purchase_link(call: WriteKey, link_id: str) -> Response:
    """Sell nothing by this link any more. Earlier purchases stay, and can still be redeemed."""
    return reply(_shown(call, await call.run(usecases.archive_link, link_id, call.now())))


def _shown(call: Call, link: rules.PurchaseLink) -> wire.PurchaseLink:
    start = usecases.public_start(call.services.public_url, call.request.headers.get("host", ""))
    return render.purchase_link(start, link)


class RedeemedPurchase(AppBody):
    redemption_token: Annotated[str, Field(min_length=1, description="Of the link that opened the app.")]
    app_user_id: AppUserId


@v1_router.post(
    "/v1/subscribers/redeem_purchase",
    responses=shows(SubscriberResponse) | shows(V1Error, 400, "The token is refused: the code says why"),
)
async def redeem_purchase(call: AppWriteKey, new: RedeemedPurchase) -> Response:
    """Take over a purchase that was made by a purchase link. It works once, but may be repeated for the same user.
    Refused with code 7849 (not a token of this project), 7852 (another user has it), 7853 (expired: a new link was sent
    to the address in `purchase_redemption_error_info`)."""
    await call.services.redemptions.redeem(call.project_id, new.redemption_token, new.app_user_id)
    return await subscriber_reply(call, new.app_user_id)
