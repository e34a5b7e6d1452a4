"""V2: subscriptions, purchases and invoices. Instants are epoch milliseconds."""

from typing import Literal

from msgspec import Struct

from latchkey.subjects.catalog.wire import Entitlement, Product
from latchkey.subjects.test_store.wire import EventReference
from latchkey.wire.v2 import Page

Environment = Literal["production", "sandbox"]
Ownership = Literal["purchased", "family_shared"]


class MonetaryAmount(Struct, frozen=True, kw_only=True):
    """An amount in one currency. `commission` and `tax` are 0 where nothing is known about them."""

    currency: str
    gross: float
    commission: float
    tax: float
    proceeds: float


class PendingChanges(Struct, frozen=True, kw_only=True):
    product: Product


class Subscription(Struct, frozen=True, kw_only=True):
    object: Literal["subscription"] = "subscription"
    id: str
    customer_id: str
    original_customer_id: str
    # Null for a promotional grant.
    product_id: str | None
    starts_at: int
    current_period_starts_at: int
    # Null for a grant without an end.
    current_period_ends_at: int | None
    ends_at: int | None
    gives_access: bool
    pending_payment: bool
    auto_renewal_status: Literal[
        "will_renew", "will_not_renew", "will_change_product", "will_pause", "has_already_renewed"
    ]
    status: Literal["trialing", "active", "expired", "in_grace_period", "in_billing_retry", "paused"]
    # Always in USD: the sum of the payments that could be converted, each at the rate of its own day.
    total_revenue_in_usd: MonetaryAmount
    # One amount for each currency that was paid in, not converted.
    revenue: list[MonetaryAmount]
    # Payments that are not in `total_revenue_in_usd`, because no exchange rate was known.
    unconverted_payments: int
    presented_offering_id: str | None
    entitlements: Page[Entitlement]
    environment: Environment
    store: str
    store_subscription_identifier: str
    ownership: Ownership
    pending_changes: PendingChanges | None
    country: str | None
    management_url: str | None


class SubscriptionTransaction(Struct, frozen=True, kw_only=True):
    object: Literal["subscription_transaction"] = "subscription_transaction"
    # The store's id of the period.
    id: str
    purchased_at: int
    product_store_identifier: str
    # The end of the time that was paid for.
    expiration_date: int | None
    # The end of access: with the grace period, or with a refund.
    effective_expiration_date: int | None
    refunded_at: int | None


class Purchase(Struct, frozen=True, kw_only=True):
    object: Literal["purchase"] = "purchase"
    id: str
    customer_id: str
    original_customer_id: str
    product_id: str
    purchased_at: int
    # The end of its access, where it has one.
    expires_at: int | None
    gives_access: bool
    # As of a subscription.
    revenue_in_usd: MonetaryAmount
    revenue: list[MonetaryAmount]
    unconverted_payments: int
    quantity: int
    status: Literal["owned", "refunded"]
    presented_offering_id: str | None
    entitlements: Page[Entitlement]
    environment: Environment
    store: str
    store_purchase_identifier: str
    ownership: Ownership
    country: str | None


class SnapshotTaken(Struct, frozen=True, kw_only=True):
    """What became of a snapshot: the purchase afterwards, and the events that came of it."""

    object: Literal["purchase_snapshot"] = "purchase_snapshot"
    # Of the subscription or purchase.
    id: str
    # `unchanged`: all of it was known. `overtaken`: a newer snapshot was known, and this one added nothing to it.
    outcome: Literal["applied", "unchanged", "overtaken"]
    subscription: Subscription | None
    purchase: Purchase | None
    events: list[EventReference]


class InvoiceLineItem(Struct, frozen=True, kw_only=True):
    object: Literal["invoice.line_item"] = "invoice.line_item"
    product_identifier: str
    product_display_name: str | None
    # ISO 8601.
    product_duration: str | None
    quantity: int
    unit_amount: MonetaryAmount


class Invoice(Struct, frozen=True, kw_only=True):
    object: Literal["invoice"] = "invoice"
    id: str
    total_amount: MonetaryAmount
    line_items: list[InvoiceLineItem]
    issued_at: int
    # Null: stores tell that an invoice was issued, not that it was paid, and give out no file of it.
    paid_at: int | None
    invoice_url: str | None


class ManagementUrl(Struct, frozen=True, kw_only=True):
    object: Literal["authenticated_management_url"] = "authenticated_management_url"
    management_url: str
