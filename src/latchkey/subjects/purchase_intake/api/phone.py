"""What the SDKs ask and send by themselves: the product-entitlement mapping, eligibility, signatures of offers.
Latchkey has no use for configuration of paywalls, events of their screens, diagnostics and attribution: each gets an
answer that stops the SDK from asking or sending again."""

from typing import Annotated, Any

from pydantic import Field

from latchkey.engine.reads import look_at
from latchkey.http.authentication import AppReadKey, AppWriteKey, address_of
from latchkey.http.errors import BadRequest, StoreNotConnected
from latchkey.http.exchange import Exchange
from latchkey.http.models import AnyBody, AppBody, AppUserId, PathUserId
from latchkey.http.routing import Response, Router, reply, shows
from latchkey.subjects.accounts.rules import network_of
from latchkey.subjects.catalog.usecases.version import load_catalog
from latchkey.subjects.offerings.render import product_entitlement_mapping
from latchkey.subjects.purchase_intake import wire
from latchkey.subjects.purchase_intake.api.receipts import INVALID_RECEIPT
from latchkey.subjects.purchase_intake.rules import intro_eligible
from latchkey.subjects.purchase_intake.usecases.app_receipts import CannotCheck, RejectedReceipt
from latchkey.subjects.purchase_intake.usecases.phone_requests import account_token, may_restore, sign_offers

router = Router(prefix="/v1", tags=["V1 for SDKs"])

_nothing: dict[str, Any] = {
    "responses": {204: {"description": "Nothing to configure"}},
    "status_code": 204,
    "response_class": Response,
}
_accepted: dict[str, Any] = {"responses": shows(wire.Accepted), "response_class": Response}


@router.post("/config/{domain}", **_nothing)
async def ask_for_config(call: AppWriteKey, domain: str, new: AnyBody) -> Response:  # noqa: ARG001 - only checked
    """No remote configuration, and status 204, because there are no paywalls. With 404 the SDKs would log an error and
    ask for the offerings once more at every start."""
    return Response(status_code=204)


@router.get("/config/{domain}", **_nothing)
async def read_config(call: AppReadKey, domain: str) -> Response:  # noqa: ARG001 - only checked
    """The same for the iOS SDK, which asks this way after a failure."""
    return Response(status_code=204)


@router.post("/events", **_accepted)
@router.post("/diagnostics", **_accepted)
async def take_telemetry(call: AppWriteKey, new: AnyBody) -> Response:  # noqa: ARG001 - only checked
    """Accept and discard events of the vendor's paywalls, and diagnostics of its SDKs. An SDK that is refused
    keeps them and sends them again."""
    return reply(wire.Accepted())


@router.post("/subscribers/{app_user_id}/attribution", **_accepted)
@router.post("/subscribers/{app_user_id}/adservices_attribution", **_accepted)
async def take_attribution(call: AppWriteKey, app_user_id: PathUserId, new: AnyBody) -> Response:  # noqa: ARG001 - only checked
    """Accept and discard attribution data of advertising networks. Attributes such as `$idfa` are kept."""
    return reply(wire.Accepted())


@router.get("/health", responses=shows(wire.ServiceHealth))
async def read_health() -> Response:
    """The service answers. Without a key, as the iOS SDK asks; see /readyz for a check of the database."""
    return reply(wire.ServiceHealth())


@router.get(
    "/subscribers/{app_user_id}/health_report_availability",
    responses=shows(wire.HealthReportAvailability),
    response_class=Response,
)
async def read_health_report_availability(app_user_id: PathUserId) -> Response:  # noqa: ARG001 - the same for all users
    """There are no health reports. Without a key, as the iOS SDK asks."""
    return reply(wire.HealthReportAvailability())


@router.get("/product_entitlement_mapping", responses=shows(wire.ProductEntitlementMapping))
async def read_mapping(call: AppReadKey) -> Response:
    """Every product of the catalog with the entitlements it grants."""
    return reply(product_entitlement_mapping(await load_catalog(call.changes, call.project_id), call.caller.store))


class ShownToken(AppBody):
    fetch_token: Annotated[str, Field(min_length=1)]


class ProductsInQuestion(AppBody):
    product_identifiers: Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=200)]


@router.post("/subscribers/{app_user_id}/restore/eligibility", responses=shows(wire.RestoreEligibility))
async def restore_eligibility(call: AppWriteKey, app_user_id: PathUserId, new: ShownToken) -> Response:
    """Whether this user could restore the purchases of this receipt, as the project's `restore_behavior` says. The
    receipt is checked with its store; nothing is changed."""
    # Each may ask the store, like a receipt.
    address = network_of(address_of(call.exchange, call.services))
    if not call.services.receipt_limit.takes(call.project_id, app_user_id, address, call.now()):
        raise StoreNotConnected("Too many receipts at once. Ask again later.")
    try:
        allowed = await may_restore(
            call.services.stores,
            call.services.reader,
            call.project_id,
            call.caller.app_id,
            call.caller.store,
            app_user_id,
            new.fetch_token,
        )
    except RejectedReceipt as invalid:
        raise BadRequest(invalid.message, code=INVALID_RECEIPT, type="store_error", param=invalid.param) from invalid
    except CannotCheck as unknown:
        raise StoreNotConnected(unknown.message) from unknown
    return reply(wire.RestoreEligibility(is_purchase_allowed_by_restore_behavior=allowed))


@router.post("/subscribers/{app_user_id}/intro_eligibility", responses=shows(dict[str, bool | None]))
async def intro_eligibility(call: AppWriteKey, app_user_id: PathUserId, new: ProductsInQuestion) -> Response:
    """For each product, whether this user can still have its introductory offer: true, false, or null if not known. By
    the history that Latchkey has; the store decides at the purchase."""
    row = await call.services.reader.read(call.project_id, app_user_id)
    customer = look_at(row, call.now()).customer if row is not None else None
    catalog = row.catalog if row is not None else await load_catalog(call.changes, call.project_id)
    return reply({id: intro_eligible(customer, catalog, call.caller.store, id) for id in new.product_identifiers})


_Text = Annotated[str, Field(min_length=1, max_length=200)]


class OfferToSign(AppBody):
    offer_id: _Text
    product_id: _Text


class OffersToSign(AppBody):
    app_user_id: AppUserId
    generate_offers: Annotated[list[OfferToSign], Field(min_length=1, max_length=20)]


@router.post("/offers", responses=shows(wire.SignedOffers))
async def post_offers(call: AppWriteKey, new: OffersToSign) -> Response:
    """Sign promotional offers with the app's App Store key, for a customer who has or had a subscription there. An
    offer that is not signed has a `signature_error`: 7232 for a customer who is not eligible, 7234 without a key."""
    exchange = call.exchange
    row = await call.services.reader.read(call.project_id, new.app_user_id)
    customer = look_at(row, call.now()).customer if row is not None else None
    token = account_token(new.app_user_id, storekit_1=_is_storekit_1(exchange))
    asked = [(offer.offer_id, offer.product_id) for offer in new.generate_offers]
    signed = await sign_offers(call.services.stores, call.project_id, call.caller.app_id, customer, token, asked)
    return reply(wire.SignedOffers(offers=signed))


def _is_storekit_1(exchange: Exchange) -> bool:
    version = exchange.headers.get(b"x-storekit-version")
    if version is not None:
        return version.strip() == b"1"
    return exchange.headers.get(b"x-storekit2-enabled", b"").strip().lower() == b"false"
