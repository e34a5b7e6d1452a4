"""What the App Store signs: transactions, renewal information, notifications, in Apple's own fields."""

from typing import Any

import msgspec

from latchkey.domain.instants import Ms
from latchkey.emulators.apple.apple_books import (
    AppleBooks,
    AppleKind,
    AppleNotice,
    AppleOffer,
    ApplePurchase,
    AppleStatus,
    AppleTransaction,
)

VERSION = "2.0"


class AppleApp(msgspec.Struct, frozen=True, kw_only=True):
    bundle_id: str
    app_apple_id: int
    # "Sandbox" or "Production"
    environment: str = "Sandbox"
    storefront: str = "USA"


def transaction(
    app: AppleApp, books: AppleBooks, purchase: ApplePurchase, transaction: AppleTransaction, signed_at: Ms
) -> dict[str, Any]:
    subscription = purchase.kind is AppleKind.SUBSCRIPTION
    product = books.products.get(transaction.product_id)
    return _without_none(
        transactionId=transaction.id,
        originalTransactionId=purchase.id,
        webOrderLineItemId=str(int(transaction.id) + 5_000) if subscription else None,
        bundleId=app.bundle_id,
        productId=transaction.product_id,
        subscriptionGroupIdentifier=product.group if product and subscription else None,
        purchaseDate=transaction.purchased_at,
        originalPurchaseDate=purchase.transactions[0].purchased_at,
        expiresDate=transaction.expires_at,
        quantity=1,
        type=str(purchase.kind),
        appAccountToken=purchase.account_token,
        inAppOwnershipType="FAMILY_SHARED" if purchase.family else "PURCHASED",
        signedDate=signed_at,
        revocationDate=transaction.revoked_at,
        revocationReason=0 if transaction.refunded else None,
        revocationType=_revocation_type(transaction),
        isUpgraded=True if transaction.upgraded else None,
        environment=app.environment,
        transactionReason=transaction.reason,
        storefront=app.storefront,
        storefrontId="143441",
        price=transaction.price.micros // 1000,
        currency=transaction.price.currency,
        **_offer(transaction.offer),
    )


def renewal(app: AppleApp, books: AppleBooks, purchase: ApplePurchase, signed_at: Ms) -> dict[str, Any] | None:
    info = purchase.renewal
    if info is None:
        return None
    next_product = books.products.get(info.product_id)
    price = info.offer.price if info.offer else next_product.price if next_product else None
    renews = purchase.status is AppleStatus.ACTIVE and info.auto_renew
    return _without_none(
        originalTransactionId=purchase.id,
        autoRenewProductId=info.product_id,
        productId=purchase.latest.product_id,
        autoRenewStatus=int(info.auto_renew),
        expirationIntent=info.intent,
        isInBillingRetryPeriod=purchase.status in (AppleStatus.GRACE, AppleStatus.BILLING_RETRY) or None,
        gracePeriodExpiresDate=info.grace_ends_at,
        priceIncreaseStatus=info.price_increase,
        signedDate=signed_at,
        environment=app.environment,
        recentSubscriptionStartDate=purchase.recent_start,
        renewalDate=purchase.latest.expires_at if renews else None,
        renewalPrice=price.micros // 1000 if price else None,
        currency=price.currency if price else None,
        appAccountToken=purchase.account_token,
        **_offer(info.offer),
    )


def notification(
    app: AppleApp,
    notice: AppleNotice,
    uuid: str,
    signed_at: Ms,
    signed_transaction: str | None,
    signed_renewal: str | None,
) -> dict[str, Any]:
    status = notice.purchase.status if notice.purchase else None
    data = _without_none(
        environment=app.environment,
        appAppleId=app.app_apple_id,
        bundleId=app.bundle_id,
        bundleVersion="1",
        status=int(status) if status is not None else None,
        signedTransactionInfo=signed_transaction,
        signedRenewalInfo=signed_renewal,
        consumptionRequestReason="UNSATISFIED_WITH_PURCHASE" if notice.type == "CONSUMPTION_REQUEST" else None,
    )
    return _without_none(
        notificationType=notice.type,
        subtype=notice.subtype,
        notificationUUID=uuid,
        version=VERSION,
        signedDate=signed_at,
        data=data,
    )


def app_transaction(app: AppleApp, bought_at: Ms, signed_at: Ms) -> dict[str, Any]:
    """The proof that the app itself was installed."""
    return {
        "receiptType": app.environment,
        "appAppleId": app.app_apple_id,
        "bundleId": app.bundle_id,
        "applicationVersion": "1",
        "versionExternalIdentifier": 1,
        "receiptCreationDate": signed_at,
        "originalPurchaseDate": bought_at,
        "originalApplicationVersion": "1",
        "deviceVerification": "",
        "deviceVerificationNonce": "",
    }


def _revocation_type(transaction: AppleTransaction) -> str | None:
    if transaction.revoked_at is None:
        return None
    return "REFUND_FULL" if transaction.refunded else "FAMILY_REVOKE"


def _offer(offer: AppleOffer | None) -> dict[str, Any]:
    if offer is None:
        return {}
    return _without_none(offerType=int(offer.kind), offerDiscountType=str(offer.discount), offerIdentifier=offer.id)


def _without_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
