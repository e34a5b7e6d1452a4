"""Signs promotional offers, which Apple lets a customer redeem only with the developer's signature."""

from uuid import UUID

from msgspec import Struct

from latchkey.domain.instants import Ms
from latchkey.stores.apple.credentials import AppleCredentials


class OfferSignature(Struct, frozen=True):
    """As StoreKit takes it. It holds for 24 hours, for one purchase."""

    key_id: str
    nonce: UUID
    timestamp: Ms
    signature: str


def sign_offer(
    credentials: AppleCredentials, *, product_id: str, offer_id: str, account_token: str, nonce: UUID, now: Ms
) -> OfferSignature:
    """`account_token` is what the app passes to StoreKit with the purchase: an `appAccountToken`, or nothing ("")."""
    # Imported when needed, as in `certificate_chains.py`.
    from appstoreserverlibrary.promotional_offer import PromotionalOfferSignatureCreator

    creator = PromotionalOfferSignatureCreator(
        credentials.private_key.encode(), credentials.key_id, credentials.bundle_id
    )
    signature = creator.create_signature(product_id, offer_id, account_token, nonce, now)
    return OfferSignature(credentials.key_id, nonce, now, signature)
