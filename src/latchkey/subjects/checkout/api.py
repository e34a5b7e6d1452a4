"""The checkout of the web SDK, over the payment provider that the app is connected to; and the products of web pages
and of the test store, with their prices. Other apps ask their own store."""

from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import Field

from latchkey.domain.instants import MINUTE
from latchkey.http.authentication import AppReadKey, AppWriteKey, Call, address_of
from latchkey.http.errors import TooManyRequests, Unprocessable
from latchkey.http.hot_reads import country_of
from latchkey.http.models import AppBody, AppUserId, PathUserId
from latchkey.http.routing import Response, Router, reply, shows
from latchkey.subjects.accounts.rules import network_of
from latchkey.subjects.catalog.usecases.product_catalog import shown_prices
from latchkey.subjects.catalog.usecases.version import load_catalog
from latchkey.subjects.checkout import render, wire
from latchkey.subjects.checkout.usecases.steps import CheckoutProblem, CheckoutRequest
from latchkey.subjects.projects.usecases import load_app
from latchkey.wire.errors import V1Error

router = Router(prefix="/rcbilling/v1", tags=["Apps: products and checkout"])

ProductId = Annotated[str, Field(min_length=1, max_length=200)]
Email = Annotated[str | None, Field(description="The buyer's address.")]
SessionId = Annotated[str, Path(max_length=200)]


class ProductInQuestion(AppBody):
    """`price_id` and `offer_id`, which the SDK sends too, change nothing: a product has one price."""

    product_id: ProductId


class NewCheckout(ProductInQuestion):
    app_user_id: AppUserId
    email: Email = None
    locale: Annotated[str | None, Field(description="The language of the page.")] = None
    presented_offering_identifier: Annotated[
        Any,
        Field(
            description="The offering that the product is bought from. It is kept if the project has an offering with "
            "this lookup key."
        ),
    ] = None
    product_change: Annotated[
        dict[str, Any] | None,
        Field(description="A change of a subscription that the user has: refused with code 7878."),
    ] = None
    purchase_flow: Annotated[
        str | None, Field(description="A way to pay beside the checkout: refused with code 8172.")
    ] = None


class Refreshed(AppBody):
    """The buyer's address, which the SDK sends too, does not change the price."""

    discount_code: Annotated[str | None, Field(description="There are none: refused with code 7814.")] = None


class Completed(AppBody):
    email: Email = None


_no = shows(V1Error, 422, "The checkout does not go on: the code says why")
_gone = shows(V1Error, 404, "This app has no such checkout, or it is over (7877)")


@router.get("/branding", responses=shows(wire.Branding) | _no)
async def read_branding(call: AppReadKey) -> Response:
    """How a checkout looks: the app's name, and its address for help."""
    if call.caller.app_id is None:
        raise Unprocessable("A checkout needs the public key of an app.", code=CheckoutProblem.CANNOT_SELL)
    app = await call.run(load_app, call.caller.app_id)
    return reply(wire.Branding(id=app.id, app_name=app.title, support_email=app.details.get("support_email")))


@router.post("/checkout/prepare", responses=shows(wire.PreparedCheckout) | _no)
async def prepare_checkout(call: AppWriteKey, new: ProductInQuestion) -> Response:
    """What a page needs to show a payment form for a product. Nothing is created. Only for web billing (`rcb_`)."""
    _require_room(call, "")
    form = await call.services.checkouts.form_for(call.project_id, call.caller.app_id, new.product_id)
    return reply(wire.PreparedCheckout(stripe_gateway_params=render.gateway_params(form)))


@router.post("/checkout/start", responses=shows(wire.StartedCheckout) | _no)
async def start_checkout(call: AppWriteKey, new: NewCheckout) -> Response:
    """Begin a checkout. The provider charges its own price of the product, whatever else the body says."""
    _require_room(call, new.app_user_id)
    wanted = CheckoutRequest(**new.model_dump())
    id, page = await call.services.checkouts.start(call.project_id, call.caller.app_id, wanted)
    return reply(render.started(id, page))


@router.get("/checkout/{operation_session_id}", responses=shows(wire.CheckoutStatus) | _no | _gone)
async def read_checkout(call: AppReadKey, operation_session_id: SessionId) -> Response:
    """How far a checkout is. What the provider says was paid is the customer's from then on."""
    progress = await call.services.checkouts.status(call.project_id, call.caller.app_id, operation_session_id)
    return reply(render.status(progress))


@router.patch("/checkout/{operation_session_id}", responses=shows(wire.CheckoutPricing) | _no | _gone)
async def refresh_checkout(call: AppWriteKey, operation_session_id: SessionId, new: Refreshed) -> Response:
    """The price once more. It does not depend on the address, and there are no discount codes."""
    _require_room(call, operation_session_id)
    form = await call.services.checkouts.refresh(
        call.project_id, call.caller.app_id, operation_session_id, discount=new.discount_code is not None
    )
    return reply(render.pricing(operation_session_id, form))


@router.post("/checkout/{operation_session_id}/complete", responses=shows(wire.CompletedCheckout) | _no | _gone)
async def complete_checkout(call: AppWriteKey, operation_session_id: SessionId, new: Completed) -> Response:
    """The payment of a checkout, for the browser to confirm with the provider. Asking again gives the same payment."""
    _require_room(call, operation_session_id)
    made = await call.services.checkouts.complete(call.project_id, call.caller.app_id, operation_session_id, new.email)
    confirmation = wire.ConfirmationParams(client_secret=made.client_secret)
    return reply(wire.CompletedCheckout(operation_session_id=operation_session_id, gateway_params=confirmation))


def _require_room(call: Call, who: str) -> None:
    """Each of these makes the provider work."""
    now, address = call.now(), network_of(address_of(call.exchange, call.services))
    if not call.services.checkouts.limit.takes(call.project_id, who, address, now):
        raise TooManyRequests(MINUTE - now % MINUTE, "Too many checkouts from this user or this address.")


MOST = 500


@router.get("/subscribers/{app_user_id}/products", responses=shows(wire.ProductDetailsList))
async def read_store_products(
    call: AppReadKey,
    app_user_id: PathUserId,
    id: Annotated[list[str] | None, Query(description="A product's id; repeat it for several.")] = None,
    currency: Annotated[str | None, Query(description="Prices in this currency, where there are any.")] = None,
) -> Response:
    """The products on sale in this app among these ids, with the catalog's prices for the buyer's country and this
    currency. Other ids are left out. The SDK's parameter `discount_code` changes nothing. Where a payment provider
    sells on web pages, a product has one price, which is the provider's, and a user who has had a subscription there
    sees no free trial."""
    catalog = await load_catalog(call.changes, call.project_id)
    asked = list(dict.fromkeys(id or ()))[:MOST]
    found = [
        (one, product)
        for one in asked
        if (product := catalog.offered(one)) is not None
        # A secret key belongs to no app.
        and (not product.apps or call.caller.app_id is None or call.caller.app_id in product.apps)
    ]
    shown = await call.services.checkouts.without_used_trials(
        call.project_id, call.caller.store, app_user_id, [product for _, product in found]
    )
    if not call.services.checkouts.sells(call.caller.store):
        shown = await call.run(
            shown_prices,
            catalog,
            shown,
            app_user_id,
            store=call.caller.store,
            country=country_of(dict(call.request.scope["headers"])),
            currency=(currency or "").upper() or None,
        )
    details = [render.product_details(catalog, product, one) for (one, _), product in zip(found, shown, strict=True)]
    return reply(wire.ProductDetailsList(product_details=details))
