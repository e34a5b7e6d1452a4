"""Receipts: how an app tells what its user bought."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from latchkey.api.authentication import AppWriteKey
from latchkey.api.errors import BadRequest
from latchkey.api.exchange import SCOPE_KEY, Exchange
from latchkey.api.models import AppUserId
from latchkey.api.replies import reply, shows
from latchkey.api.services import Provided
from latchkey.api.v1.attributes import Attributes, checked
from latchkey.api.v1.reply import subscriber
from latchkey.domain.money import Price
from latchkey.domain.purchase import Environment
from latchkey.usecases.admission import Caller
from latchkey.usecases.receipts import InvalidReceipt, Receipt, take_receipt
from latchkey.usecases.services import Services
from latchkey.wire.v1 import SubscriberResponse

router = APIRouter(tags=["V1 subscribers"])

ROUTE = "/v1/receipts"

PLATFORMS = frozenset(
    {"ios", "android", "amazon", "macos", "web", "stripe", "uikitformac", "tvos", "watchos", "visionos"}
    | {"roku", "paddle", "galaxy", "test_store"}
)


class NewReceipt(BaseModel):
    """Apps of every age send fields of their own here, and drop a purchase for good when they are refused: so unknown
    fields are let pass, unlike anywhere else."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    app_user_id: AppUserId
    fetch_token: Annotated[str, Field(min_length=1, max_length=100_000)]
    product_id: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    price: Annotated[float, Field(ge=0, le=1_000_000)] | None = None
    currency: Annotated[str, Field(pattern="^[A-Z]{3}$")] | None = None
    attributes: Attributes | None = None
    presented_offering_identifier: str | None = None
    initiation_source: str | None = None
    is_restore: bool | None = None


@router.post(ROUTE, responses=shows(SubscriberResponse), response_class=Response)
async def post_receipt(
    request: Request,
    services: Provided,
    caller: AppWriteKey,
    new: NewReceipt,
    x_platform: Annotated[str | None, Header()] = None,
    x_is_sandbox: Annotated[str | None, Header()] = None,
) -> Response:
    """Take in a purchase. The same token again is the same purchase; another's is restored as the project says."""
    exchange: Exchange = request.scope[SCOPE_KEY]
    return reply(await take(exchange, services, caller, new, x_platform, x_is_sandbox))


async def take(
    exchange: Exchange,
    services: Services,
    caller: Caller,
    new: NewReceipt,
    x_platform: str | None,
    x_is_sandbox: str | None,
) -> SubscriberResponse:
    if x_platform is not None and x_platform.lower() not in PLATFORMS:
        raise BadRequest(f"{x_platform!r} is not a platform.", code=7000, type="parameter_error", param="X-Platform")
    price = None
    if new.price is not None:
        price = Price(round(new.price * 1_000_000), new.currency or "USD")
    receipt = Receipt(
        app_user_id=new.app_user_id,
        token=new.fetch_token,
        product_id=new.product_id,
        price=price,
        app_id=caller.app_id,
        environment=Environment.PRODUCTION if x_is_sandbox == "false" else Environment.SANDBOX,
        attributes=checked(new.attributes or {}),
    )
    try:
        taken = await take_receipt(services.changes, caller.project_id, receipt)
    except InvalidReceipt as invalid:
        raise BadRequest(invalid.message, code=7103, type="store_error", param=invalid.param) from invalid
    return subscriber(exchange, services, caller, taken.view(services.now()))
