"""Receipts: how an app reports what its user bought.

A phone drops a purchase for good when it gets any 4xx here, and sends it again later after a 5xx. So a 4xx is only used
if it is certainly not a purchase: a token of the test store with a wrong key, or a body without user, token or product
and with a key of the test store, whose purchases cost nothing. A request with the key of a real store's app may be
about money, and gets 503, also if the key was revoked or the app deleted. 401 is for keys that never existed.

Additional data never causes a refusal: invalid attributes, a character that cannot be stored, an unknown platform, or a
product field of the wrong type beside a valid one.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import structlog
from msgspec import UNSET, json
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from latchkey.domain.stores.store import PLATFORMS, TEST_STORE
from latchkey.engine.admission import Caller
from latchkey.engine.storage.keys import former_store
from latchkey.http.authentication import ReceiptKey, address_of, app_caller, caller_of, key_hash
from latchkey.http.body import CheckedBody
from latchkey.http.errors import ApiError, BadRequest, Forbidden, StoreNotConnected, Unauthenticated, Unavailable
from latchkey.http.exchange import Exchange
from latchkey.http.hot_reads import country_of, seen_subscriber, visit_of
from latchkey.http.models import AppUserId
from latchkey.http.routing import Response, Router, reply, shows
from latchkey.http.services import Services
from latchkey.http.shared_bodies import left_out, sorted_out
from latchkey.subjects.accounts.rules import network_of
from latchkey.subjects.purchase_intake.api.store_notifications import INCOMING, accept
from latchkey.subjects.purchase_intake.usecases import app_receipts
from latchkey.subjects.purchase_intake.usecases.app_receipts import ShownReceipt
from latchkey.wire.v1 import AttributesErrorResponse, PurchasedProduct, ReceiptResponse

log = structlog.get_logger()
router = Router(tags=["V1 subscribers"])

ROUTE = "/v1/receipts"
INVALID_RECEIPT = 7103
OWNED_BY_ANOTHER = 7102

_LONGEST_PRODUCT_ID = 200
_MOST_PRODUCTS = 50


class NewReceipt(BaseModel):
    """The fields of a receipt that are used. Apps send many more (price, currency, is_restore, observer_mode, ...).
    Those are claims of a phone and decide nothing, so they are ignored, whatever their type."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    app_user_id: AppUserId
    # Left out by an app that only shows its app transaction.
    fetch_token: str | None = None
    # The model does not check the types of these eight: an invalid value must not refuse the purchase.
    product_id: Annotated[Any, Field(description="What was bought: a text. Any other type is ignored.")] = None
    product_ids: Annotated[
        Any,
        Field(
            description="The same as the Android SDK sends it: a list of texts. Its first one counts if `product_id` "
            "cannot be read. Any other type is ignored."
        ),
    ] = None
    attributes: Annotated[
        Any,
        Field(
            description="An object of attributes, each with `value` and `updated_at_ms`. Those that cannot be kept are "
            "named in `attributes_error_response` of the reply; the others are saved."
        ),
    ] = None

    currency: Annotated[
        Any, Field(description="In the test store: which of the listed prices counts. Otherwise ignored.")
    ] = None
    transaction_id: Annotated[Any, Field(description="The store's id of the transaction, as the iOS SDK sends it.")] = (
        None
    )
    app_transaction: Annotated[Any, Field(description="The signed app transaction, as the iOS SDK sends it.")] = None
    initiation_source: Annotated[
        Any,
        Field(description='With "restore", everything that the App Store account has is taken in, but consumables.'),
    ] = None
    presented_offering_identifier: Annotated[
        Any,
        Field(
            description="The offering that the product was bought from. It is kept if the project has an offering with "
            "this lookup key."
        ),
    ] = None

    @property
    def product(self) -> str | None:
        listed = self.product_ids[0] if isinstance(self.product_ids, list) and self.product_ids else None
        return _product_id(self.product_id) or _product_id(listed)

    @property
    def products(self) -> tuple[str, ...]:
        """`product_id` first, if it can be read."""
        listed = self.product_ids[:_MOST_PRODUCTS] if isinstance(self.product_ids, list) else []
        return tuple(dict.fromkeys(id for id in map(_product_id, (self.product_id, *listed)) if id is not None))


def _product_id(value: Any) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= _LONGEST_PRODUCT_ID else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


@router.post(ROUTE, responses=shows(ReceiptResponse))
async def post_receipt(call: ReceiptKey, new: NewReceipt) -> Response:
    """Record a purchase, with the public key of the app it was made in. The same token again is the same purchase; a
    token of another customer is restored according to the project's setting. The app's store
    decides what was bought; test store purchases are always SANDBOX, at the catalog's price. A receipt that cannot be
    checked now gets 503 or temporary access, is kept, and is processed later."""
    exchange = call.exchange
    return reply(await take(exchange, call.services, call.caller, new))


async def take(exchange: Exchange, services: Services, caller: Caller, new: NewReceipt) -> ReceiptResponse:
    attributes, problems = sorted_out(new.attributes, services.now())
    app_transaction = _text(new.app_transaction)
    if not (new.fetch_token or "").strip() and app_transaction is None:
        raise BadRequest(
            "There is no receipt in this request: send it as fetch_token.",
            code=INVALID_RECEIPT,
            type="store_error",
            param="fetch_token",
        )
    consume: Mapping[str, bool] = {}
    seen = visit_of(exchange.headers, services.now(), always=caller.is_public, platforms=PLATFORMS)
    try:
        if _of_a_store(services, caller, new):
            assert caller.app_id is not None
            assert caller.store is not None
            address = network_of(address_of(exchange, services))
            if not services.receipt_limit.takes(caller.project_id, new.app_user_id, address, services.now()):
                raise StoreNotConnected("Too many receipts at once. Keep the purchase, and send it again later.")
            shown = ShownReceipt(
                app_user_id=new.app_user_id,
                token=new.fetch_token,
                product_ids=new.products,
                transaction_id=_text(new.transaction_id),
                app_transaction=app_transaction,
                whole=new.initiation_source == "restore",
                offering=_product_id(new.presented_offering_identifier),
            )
            answered = await services.receipts.take(
                caller.project_id, caller.app_id, caller.store, shown, attributes, address, seen
            )
            taken, consume = answered.committed, answered.consume
        else:
            receipt = app_receipts.Receipt(
                app_user_id=new.app_user_id,
                token=new.fetch_token or "",
                app_id=caller.app_id,
                store=caller.store,
                product_id=new.product,
                currency=_text(new.currency),
                country=country_of(exchange.headers),
                attributes=attributes,
                offering=_product_id(new.presented_offering_identifier),
                seen=seen,
            )
            taken = await app_receipts.take_receipt(services.changes, caller.project_id, receipt)
    except app_receipts.RejectedReceipt as invalid:
        raise BadRequest(invalid.message, code=INVALID_RECEIPT, type="store_error", param=invalid.param) from invalid
    except app_receipts.CannotCheck as unknown:
        raise StoreNotConnected(unknown.message) from unknown
    problems += left_out(attributes, taken.customer)
    view = taken.view(services.now())
    if seen is not None and not taken.seen:
        services.presence.note(caller.project_id, view.key, replace(seen, at=view.now))
    body = seen_subscriber(exchange, caller, view, token=new.fetch_token)
    return ReceiptResponse(
        request_date=body.request_date,
        request_date_ms=body.request_date_ms,
        subscriber=body.subscriber,
        purchased_products={id: PurchasedProduct(should_consume=wanted) for id, wanted in consume.items()} or UNSET,
        attributes_error_response=AttributesErrorResponse(attribute_errors=problems) if problems else UNSET,
    )


def _of_a_store(services: Services, caller: Caller, new: NewReceipt) -> bool:
    """Whether a store that can be connected has to vouch for it. Test-store tokens count only with a test-store key."""
    is_test = new.fetch_token is not None and new.fetch_token.startswith(app_receipts.TEST_PREFIX)
    return caller.app_id is not None and caller.store in services.stores.adapters and not is_test


async def spared(exchange: Exchange, services: Services, error: ApiError) -> ApiError:
    """The error, or 503 instead of one that would make a phone drop a purchase which may be real."""
    # 7102: all purchases of the receipt are known and belong to others. Nothing is lost if the phone drops it.
    if exchange.route != ROUTE or error.status >= 500 or error.code in (INVALID_RECEIPT, OWNED_BY_ANOTHER):
        return error
    if isinstance(error, Forbidden):
        return error
    if isinstance(error, Unauthenticated):
        return await _of_a_former_key(exchange, services) or error
    if exchange.key_id is None:
        try:
            # The body was refused before the key was checked.
            await caller_of(exchange, services, receipt=True)
        except ApiError as refused:
            if isinstance(refused, Unauthenticated):
                return await _of_a_former_key(exchange, services) or error
        except Exception:
            # The key cannot be checked now, so the receipt may be real.
            return Unavailable()
    if exchange.store in (None, TEST_STORE):
        return error
    return StoreNotConnected(f"This receipt cannot be read: {error.message} Keep it, and send it again later.")


async def _of_a_former_key(exchange: Exchange, services: Services) -> ApiError | None:
    """503, if the key was revoked or its app was deleted: installed copies of the app still have it, and what they show
    may be paid for. None: no app of a real store ever had this key, so no phone loses anything."""
    try:
        hashed = key_hash(exchange.headers.get(b"authorization"))
        store = await former_store(services.database.hot, hashed)
    except ApiError:
        return None
    except Exception:
        return Unavailable()
    if store in (None, TEST_STORE):
        return None
    log.warning("receipt with a former key", store=store, request_id=exchange.request_id.decode())
    return StoreNotConnected(
        "The key of this app was revoked, or its app was deleted. Keep the purchase, and send it with a valid key."
    )


# The hot writes, receipts of apps and notifications of stores, without the framework in between.


_encode = json.Encoder().encode


class ReceiptEndpoint:
    route = ROUTE

    def __init__(self, services: Services) -> None:
        self._services = services

    async def answer(self, exchange: Exchange, segments: list[str], body: CheckedBody) -> bytes | None:
        """The reply, if this is a notification, or a receipt with a valid body."""
        if segments[0] == "incoming" and len(segments) == 2:
            return await self._notified(exchange, segments[1], body)
        if segments != ["v1", "receipts"]:
            return None
        try:
            new = NewReceipt.model_validate(await body.value())
        except ValidationError:
            return None
        caller = await app_caller(exchange, self._services, "write", receipt=True)
        return _encode(await take(exchange, self._services, caller, new))

    async def _notified(self, exchange: Exchange, token: str, body: CheckedBody) -> bytes | None:
        exchange.route = INCOMING
        content = await body.content()
        if content is None:
            return None
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in exchange.headers.items()}
        return _encode(await accept(self._services, token, content, headers))

    async def spared(self, exchange: Exchange, error: ApiError) -> ApiError:
        """What a phone gets instead of an error that would make it drop a purchase."""
        return await spared(exchange, self._services, error)
