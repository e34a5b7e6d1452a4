"""The books in the fields of the Google Play Developer API: purchases, and what is for sale. Notifications as Pub/Sub
carries them."""

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from latchkey.domain.instants import Duration, Ms
from latchkey.domain.money.amounts import MICROS, Price
from latchkey.emulators.emulator import without_none
from latchkey.emulators.google.google_books import (
    CancelledBy,
    GoogleBooks,
    GoogleNotice,
    GoogleOrder,
    GooglePhase,
    GoogleProduct,
    GooglePurchase,
    GoogleState,
)

# In a purchase, and in an order.
_PHASES = {
    GooglePhase.BASE: ("basePrice", "baseDetails"),
    GooglePhase.FREE_TRIAL: ("freeTrial", "freeTrialDetails"),
    GooglePhase.INTRODUCTORY: ("introductoryPrice", "introductoryPriceDetails"),
}
REGION = "US"


def subscription(books: GoogleBooks, purchase: GooglePurchase) -> dict[str, Any]:
    """A SubscriptionPurchaseV2."""
    pending = purchase.state in (GoogleState.PENDING, GoogleState.PENDING_PURCHASE_CANCELED)
    paused, account = purchase.state is GoogleState.PAUSED, purchase.account_token
    return without_none(
        kind="androidpublisher#subscriptionPurchaseV2",
        startTime=None if pending else instant(purchase.started_at),
        regionCode=REGION,
        subscriptionState=f"SUBSCRIPTION_STATE_{purchase.state}",
        linkedPurchaseToken=purchase.replaces,
        pausedStateContext={"autoResumeTime": instant(purchase.resumes_at)} if paused and purchase.resumes_at else None,
        canceledStateContext=_cancelled(purchase),
        testPurchase={} if purchase.test else None,
        acknowledgementState=_acknowledged(purchase),
        externalAccountIdentifiers={"obfuscatedExternalAccountId": account} if account else None,
        lineItems=[_line_item(books, purchase)],
        etag=etag(purchase),
    )


def etag(purchase: GooglePurchase) -> str:
    return f"{len(purchase.orders)}-{purchase.state}-{purchase.expires_at}"


def old_subscription(purchase: GooglePurchase) -> dict[str, Any]:
    """A SubscriptionPurchase, the older form. Only it has the end of a pause that has not begun."""
    return without_none(
        kind="androidpublisher#subscriptionPurchase",
        startTimeMillis=str(purchase.started_at),
        expiryTimeMillis=str(purchase.expires_at),
        autoResumeTimeMillis=str(purchase.resumes_at) if purchase.resumes_at is not None else None,
        autoRenewing=purchase.auto_renew,
        orderId=purchase.latest.id,
        linkedPurchaseToken=purchase.replaces,
        purchaseType=0 if purchase.test else None,
        acknowledgementState=int(purchase.acknowledged),
        obfuscatedExternalAccountId=purchase.account_token,
    )


def product(purchase: GooglePurchase) -> dict[str, Any]:
    """A ProductPurchaseV2."""
    states = {GoogleState.ACTIVE: "PURCHASED", GoogleState.PENDING: "PENDING"}
    consumed = "CONSUMPTION_STATE_CONSUMED" if purchase.consumed else "CONSUMPTION_STATE_YET_TO_BE_CONSUMED"
    refundable = int(purchase.latest.refunded_at is None)
    details = {"quantity": 1, "refundableQuantity": refundable, "consumptionState": consumed}
    return without_none(
        kind="androidpublisher#productPurchaseV2",
        productLineItem=[{"productId": purchase.product, "productOfferDetails": details}],
        purchaseStateContext={"purchaseState": states.get(purchase.state, "CANCELLED")},
        testPurchaseContext={"fopType": "TEST"} if purchase.test else None,
        orderId=purchase.latest.id,
        obfuscatedExternalAccountId=purchase.account_token,
        regionCode=REGION,
        purchaseCompletionTime=None if purchase.state is GoogleState.PENDING else instant(purchase.started_at),
        acknowledgementState=_acknowledged(purchase),
    )


def order(purchase: GooglePurchase, order: GoogleOrder) -> dict[str, Any]:
    """An Order."""
    product_id, _, plan = order.product.partition(":")
    paid = {"total": money(order.price), "tax": money(Price(0, order.price.currency))}
    item = {"productId": product_id, "productTitle": product_id, "listingPrice": money(order.price), **paid}
    state = "PENDING" if purchase.state is GoogleState.PENDING else "PROCESSED"
    history: dict[str, Any] = {"processedEvent": {"eventTime": instant(order.bought_at)}}
    if order.refunded_at is not None:
        state, back = "REFUNDED", {"refundDetails": {"total": money(order.price)}, "refundReason": "OTHER"}
        history["refundEvent"] = {"eventTime": instant(order.refunded_at), **back}
    if order.ends_at is not None:
        item["subscriptionDetails"] = {
            "basePlanId": plan,
            "offerPhaseDetails": {_PHASES[order.phase][1]: {}},
            "servicePeriodStartTime": instant(order.starts_at or order.bought_at),
            "servicePeriodEndTime": instant(order.ends_at),
        }
    else:
        item["oneTimePurchaseDetails"] = {"quantity": 1}
    return {
        "orderId": order.id,
        "purchaseToken": purchase.token,
        "state": state,
        "createTime": instant(order.bought_at),
        "lastEventTime": instant(order.refunded_at or order.bought_at),
        "buyerAddress": {"buyerCountry": REGION},
        **paid,
        "lineItems": [item],
        "orderHistory": history,
    }


def voided(purchase: GooglePurchase, order: GoogleOrder) -> dict[str, Any]:
    """A VoidedPurchase."""
    assert order.refunded_at is not None
    unacknowledged = not purchase.acknowledged
    return {
        "kind": "androidpublisher#voidedPurchase",
        "purchaseToken": purchase.token,
        "purchaseTimeMillis": str(purchase.started_at),
        "voidedTimeMillis": str(order.refunded_at),
        "orderId": order.id,
        "voidedSource": 2 if unacknowledged else 1,
        "voidedReason": 8 if unacknowledged else 0,
    }


def push(notice: GoogleNotice, package: str, id: str, subscription_name: str) -> dict[str, Any]:
    """The body of a Pub/Sub push."""
    notification: dict[str, Any] = {"version": "1.0", "packageName": package, "eventTimeMillis": str(notice.at)}
    if (purchase := notice.purchase) is None:
        notification["testNotification"] = {"version": "1.0"}
    elif notice.code is None:
        kind, named = 1 if purchase.subscription else 2, {"purchaseToken": purchase.token}
        notification["voidedPurchaseNotification"] = named | {
            "orderId": notice.voided_order,
            "productType": kind,
            "refundType": 1,
        }
    elif purchase.subscription:
        told = {"version": "1.0", "notificationType": int(notice.code), "purchaseToken": purchase.token}
        notification["subscriptionNotification"] = told
    else:
        told = {"version": "1.0", "notificationType": notice.one_time, "purchaseToken": purchase.token}
        notification["oneTimeProductNotification"] = {**told, "sku": purchase.product}
    published = instant(notice.at)
    return {
        "message": {
            "attributes": {},
            "data": base64.b64encode(msgspec.json.encode(notification)).decode(),
            "messageId": id,
            "message_id": id,
            "publishTime": published,
            "publish_time": published,
        },
        "subscription": subscription_name,
    }


def instant(at: Ms) -> str:
    moment = datetime.fromtimestamp(at / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at % 1000:03}Z"


def money(price: Price) -> dict[str, Any]:
    units, micros = divmod(price.micros, MICROS)
    shown: dict[str, Any] = {"currencyCode": price.currency}
    # Google leaves zeros out.
    if units:
        shown["units"] = str(units)
    if micros:
        shown["nanos"] = micros * 1000
    return shown


def _line_item(books: GoogleBooks, purchase: GooglePurchase) -> dict[str, Any]:
    product_id, _, plan = purchase.product.partition(":")
    next_id = purchase.next_product.partition(":")[0] if purchase.next_product else None
    sold = books.products.get(purchase.product)
    renewing = without_none(
        autoRenewEnabled=True if purchase.auto_renew else None,
        recurringPrice=money(sold.price) if sold else None,
        installmentDetails={"pendingCancellation": {}} if purchase.cancellation_scheduled else None,
    )
    phase = purchase.latest.phase
    offer = None if phase is GooglePhase.BASE else phase.lower().replace("_", "-")
    return without_none(
        productId=product_id,
        expiryTime=instant(purchase.expires_at) if purchase.expires_at is not None else None,
        latestSuccessfulOrderId=purchase.latest.id,
        autoRenewingPlan=None if purchase.prepaid else renewing,
        prepaidPlan={"allowExtendAfterTime": instant(purchase.started_at)} if purchase.prepaid else None,
        offerDetails=without_none(basePlanId=plan, offerId=offer),
        offerPhase={_PHASES[phase][0]: {}},
        deferredItemReplacement={"productId": next_id} if next_id else None,
    )


def _cancelled(purchase: GooglePurchase) -> dict[str, Any] | None:
    by, at = purchase.cancelled_by, purchase.cancelled_at
    if by is None or purchase.state not in (GoogleState.CANCELED, GoogleState.EXPIRED):
        return None
    if by is CancelledBy.REPLACEMENT:
        return {"replacementCancellation": {}}
    return {f"{by}InitiatedCancellation": {"cancelTime": instant(at)} if by is CancelledBy.USER and at else {}}


def _acknowledged(purchase: GooglePurchase) -> str:
    return f"ACKNOWLEDGEMENT_STATE_{'ACKNOWLEDGED' if purchase.acknowledged else 'PENDING'}"


def subscriptions(books: GoogleBooks, package_name: str, *, archived: bool) -> list[dict[str, Any]]:
    plans: dict[str, list[GoogleProduct]] = {}
    for product in books.products.values():
        if product.plan is not None:
            plans.setdefault(product.id, []).append(product)
    found = []
    for id, sold in plans.items():
        shown: dict[str, Any] = {"packageName": package_name, "productId": id, "listings": _listings(id)}
        shown["basePlans"] = [_base_plan(product) for product in sold]
        if not any(product.on_sale for product in sold):
            shown["archived"] = True
        if archived or "archived" not in shown:
            found.append(shown)
    return found


def offers(books: GoogleBooks) -> list[dict[str, Any]]:
    found = []
    for product in books.products.values():
        if product.trial is not None:
            found.append(_offer(product, "free-trial", product.trial, 1, {"free": {}}))
        if product.intro is not None:
            price = {"price": money(product.intro.price)}
            found.append(_offer(product, "intro", product.intro.duration, product.intro.periods, price))
    return found


def one_time_products(books: GoogleBooks) -> list[dict[str, Any]]:
    return [
        {
            "productId": product.id,
            "listings": _listings(product.id),
            "purchaseOptions": [
                {
                    "purchaseOptionId": "buy",
                    "state": _state(product),
                    "buyOption": {"legacyCompatible": True},
                    "regionalPricingAndAvailabilityConfigs": _regions(product, availability="AVAILABLE"),
                }
            ],
        }
        for product in books.products.values()
        if product.plan is None
    ]


def _base_plan(product: GoogleProduct) -> dict[str, Any]:
    kind = "prepaidBasePlanType" if product.prepaid else "autoRenewingBasePlanType"
    return {
        "basePlanId": product.plan,
        "state": _state(product),
        "regionalConfigs": _regions(product, newSubscriberAvailability=True),
        kind: {"billingPeriodDuration": str(product.period)},
    }


def _offer(product: GoogleProduct, id: str, length: Duration, periods: int, terms: Mapping[str, Any]) -> dict[str, Any]:
    phase = {"recurrenceCount": periods, "duration": str(length), "regionalConfigs": [{"regionCode": REGION, **terms}]}
    names = {"productId": product.id, "basePlanId": product.plan, "offerId": id}
    return {**names, "state": "ACTIVE", "phases": [phase]}


def _regions(product: GoogleProduct, **more: Any) -> list[dict[str, Any]]:
    prices = {REGION: product.price, **product.elsewhere}
    return [{"regionCode": region, "price": money(price), **more} for region, price in prices.items()]


def _state(product: GoogleProduct) -> str:
    return "ACTIVE" if product.on_sale else "INACTIVE"


def _listings(id: str) -> list[dict[str, str]]:
    return [{"languageCode": "en-US", "title": id}]
