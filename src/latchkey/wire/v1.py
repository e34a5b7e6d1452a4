"""V1: the subscriber. Instants are ISO 8601, whole seconds, `Z`."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType, field

from latchkey.wire.errors import RejectedAttribute
from latchkey.wire.event import Attribute, Entitlement


class Money(Struct, frozen=True, kw_only=True, gc=False):
    amount: float
    currency: str


class Subscription(Struct, frozen=True, kw_only=True, gc=False):
    auto_resume_date: str | None
    billing_issues_detected_at: str | None
    # The end of the paid time, or of access after a refund. A grace period moves only the entitlement's end.
    expires_date: str
    grace_period_expires_date: str | None
    original_purchase_date: str
    purchase_date: str
    refunded_at: str | None
    unsubscribe_detected_at: str | None
    is_sandbox: bool
    ownership_type: str
    period_type: str
    store: str
    # The next four are missing in replies of an older service. Of the latest period.
    store_transaction_id: str | UnsetType | None = UNSET
    # Null if the catalog does not have the product.
    display_name: str | UnsetType | None = UNSET
    # What was paid for the latest period; 0 in a free trial.
    price: Money | UnsetType | None = UNSET
    # Where the user manages it, while it is active and if its store has such a page.
    management_url: str | UnsetType | None = UNSET
    # The base plan, for readers that know the product without it.
    product_plan_identifier: str | UnsetType = UNSET


class NonSubscription(Struct, frozen=True, kw_only=True, gc=False):
    """One one-time purchase. Grants are listed among the subscriptions."""

    id: str
    is_sandbox: bool
    purchase_date: str
    original_purchase_date: str
    store: str
    store_transaction_id: str
    # Missing in replies of an older service.
    display_name: str | UnsetType | None = UNSET
    price: Money | UnsetType | None = UNSET


class Subscriber(Struct, frozen=True, kw_only=True, gc=False):
    original_app_user_id: str
    original_application_version: str | None
    first_seen: str
    last_seen: str
    management_url: str | None
    original_purchase_date: str | None
    non_subscriptions: dict[str, list[NonSubscription]]
    subscriptions: dict[str, Subscription]
    # Every entitlement ever granted, expired ones included; except those that rest only on a refunded one-time purchase
    # or a revoked grant.
    entitlements: dict[str, Entitlement]
    # Left out for public keys: an app must not read what a server stored about its user.
    subscriber_attributes: dict[str, Attribute] | UnsetType = UNSET
    # Always an empty object; strict clients require the key and reject other unknown ones.
    other_purchases: dict[str, Any] = field(default_factory=dict)


class SubscriberResponse(Struct, frozen=True, kw_only=True, gc=False):
    request_date: str
    request_date_ms: int
    subscriber: Subscriber


class AttributesErrorResponse(Struct, frozen=True, kw_only=True):
    attribute_errors: list[RejectedAttribute]


class AttributesSaved(SubscriberResponse, frozen=True, kw_only=True, gc=False):
    # Always empty: attributes that cannot be kept are named in an error.
    attribute_errors: list[RejectedAttribute]


class PurchasedProduct(Struct, frozen=True, kw_only=True, gc=False):
    # Whether the app should use the purchase up, so that it can be bought again.
    should_consume: bool


class ReceiptResponse(SubscriberResponse, frozen=True, kw_only=True, gc=False):
    # The one-time purchases of the receipt, by product. Left out if there are none.
    purchased_products: dict[str, PurchasedProduct] | UnsetType = UNSET
    # The attributes of the receipt that were not saved. Left out if there are none.
    attributes_error_response: AttributesErrorResponse | UnsetType = UNSET
