"""Signatures for promotional offers of the App Store. Apple lets a customer redeem such an offer only with one."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID, uuid4

from latchkey.domain.customers.customer import Customer
from latchkey.stores.apple.credentials import AppleCredentials
from latchkey.stores.apple.offers import sign_offer
from latchkey.stores.apple.snapshots import STORE
from latchkey.usecases.stores.connections import Connections
from latchkey.wire.sdk import SignatureData, SignatureError, SignedOffer

# Codes that the iOS SDK knows.
NOT_ELIGIBLE = 7232
NO_SIGNING_KEY = 7234


@dataclass(frozen=True, slots=True)
class AskedOffer:
    offer_id: str
    product_id: str


def account_token(app_user_id: str, *, storekit_1: bool) -> str:
    """What the SDK passes to StoreKit with the purchase; the signature must cover the same. StoreKit 1 gets the user id
    as it is, StoreKit 2 only an id that is a UUID, which Apple writes in lower case."""
    if storekit_1:
        return app_user_id
    try:
        return str(UUID(app_user_id)) if len(app_user_id) == 36 else ""
    except ValueError:
        return ""


async def sign_offers(
    connections: Connections,
    project_id: str,
    app_id: str | None,
    customer: Customer | None,
    token: str,
    asked: list[AskedOffer],
) -> list[SignedOffer]:
    """A signature for each offer. Only for a customer with a subscription of the App Store on record: an app's public
    key is no secret, and without this rule anybody could have discounts signed."""
    known = await connections.of_app(project_id, app_id) if app_id is not None else None
    app = known.connected if known is not None else None
    credentials = app.credentials if app is not None and app.store == STORE else None
    if not isinstance(credentials, AppleCredentials):
        reason = "This app is not connected to the App Store, so its offers cannot be signed."
        return [_refused(one, NO_SIGNING_KEY, reason) for one in asked]
    if customer is None or not any(one.store == STORE for one in customer.subscriptions):
        reason = "Promotional offers are for customers who have or had a subscription in the App Store."
        return [_refused(one, NOT_ELIGIBLE, reason, credentials.key_id) for one in asked]
    now = connections.now()
    signed = []
    for one in asked:
        made = sign_offer(
            credentials,
            product_id=one.product_id,
            offer_id=one.offer_id,
            account_token=token,
            nonce=uuid4(),
            now=now,
        )
        data = SignatureData(nonce=str(made.nonce), signature=made.signature, timestamp=made.timestamp)
        signed.append(
            SignedOffer(key_id=made.key_id, offer_id=one.offer_id, product_id=one.product_id, signature_data=data)
        )
    return signed


def _refused(asked: AskedOffer, code: int, message: str, key_id: str = "") -> SignedOffer:
    error = SignatureError(code=code, message=message)
    return SignedOffer(key_id=key_id, offer_id=asked.offer_id, product_id=asked.product_id, signature_error=error)
