"""Signing promotional offers of the App Store."""

from __future__ import annotations

from typing import Annotated

from fastapi import Request
from pydantic import Field
from starlette.responses import Response

from latchkey.api.authentication import AppWriteKey
from latchkey.api.exchange import SCOPE_KEY, Exchange
from latchkey.api.models import AppBody, AppUserId
from latchkey.api.replies import reply, shows
from latchkey.api.routing import Router
from latchkey.api.services import Provided
from latchkey.usecases.rendering.view import look_at
from latchkey.usecases.stores.offer_signing import AskedOffer, account_token, sign_offers
from latchkey.wire.sdk import SignedOffers

router = Router(tags=["V1 for SDKs"])

_Text = Annotated[str, Field(min_length=1, max_length=200)]


class OfferToSign(AppBody):
    offer_id: _Text
    product_id: _Text


class OffersToSign(AppBody):
    app_user_id: AppUserId
    generate_offers: Annotated[list[OfferToSign], Field(min_length=1, max_length=20)]


@router.post("/v1/offers", responses=shows(SignedOffers), response_class=Response)
async def post_offers(request: Request, services: Provided, caller: AppWriteKey, new: OffersToSign) -> Response:
    """Sign promotional offers with the app's App Store key, for a customer who has or had a subscription there. An
    offer that is not signed has a `signature_error`: 7232 for a customer who is not eligible, 7234 without a key."""
    exchange: Exchange = request.scope[SCOPE_KEY]
    row = await services.reader.read(caller.project_id, new.app_user_id)
    customer = look_at(row, services.now()).customer if row is not None else None
    token = account_token(new.app_user_id, storekit_1=_is_storekit_1(exchange))
    asked = [AskedOffer(one.offer_id, one.product_id) for one in new.generate_offers]
    signed = await sign_offers(services.stores, caller.project_id, caller.app_id, customer, token, asked)
    return reply(SignedOffers(offers=signed))


def _is_storekit_1(exchange: Exchange) -> bool:
    version = exchange.headers.get(b"x-storekit-version")
    if version is not None:
        return version.strip() == b"1"
    return exchange.headers.get(b"x-storekit2-enabled", b"").strip().lower() == b"false"
