"""An event of a customer, the id derived from its content, and its type in each dialect of webhooks."""

from enum import StrEnum
from uuid import UUID, uuid5

from msgspec import Struct

from latchkey.domain.instants import Ms
from latchkey.domain.money.amounts import Price
from latchkey.domain.purchases.purchase import Environment, Reason, Terms

NAMESPACE = UUID("6c617463-686b-6579-8000-6576656e7473")


class EventType(StrEnum):
    INITIAL_PURCHASE = "INITIAL_PURCHASE"
    RENEWAL = "RENEWAL"
    NON_RENEWING_PURCHASE = "NON_RENEWING_PURCHASE"
    CANCELLATION = "CANCELLATION"
    UNCANCELLATION = "UNCANCELLATION"
    TRIAL_STARTED = "TRIAL_STARTED"
    TRIAL_CANCELLED = "TRIAL_CANCELLED"
    BILLING_ISSUE = "BILLING_ISSUE"
    EXPIRATION = "EXPIRATION"
    REFUND = "REFUND"
    REFUND_REVERSED = "REFUND_REVERSED"
    PRODUCT_CHANGE = "PRODUCT_CHANGE"
    SUBSCRIPTION_PAUSED = "SUBSCRIPTION_PAUSED"
    SUBSCRIPTION_EXTENDED = "SUBSCRIPTION_EXTENDED"
    TRANSFER = "TRANSFER"
    INVOICE_ISSUANCE = "INVOICE_ISSUANCE"
    TEMPORARY_ENTITLEMENT_GRANT = "TEMPORARY_ENTITLEMENT_GRANT"
    VIRTUAL_CURRENCY_TRANSACTION = "VIRTUAL_CURRENCY_TRANSACTION"
    EXPERIMENT_ENROLLMENT = "EXPERIMENT_ENROLLMENT"
    # Not in the specification: two customers became one, or a customer with access took another id.
    SUBSCRIBER_ALIAS = "SUBSCRIBER_ALIAS"


class Event(Struct, frozen=True, kw_only=True):
    """What happened. The customer's ids, the sequence and the entitlements are added when the event is stored."""

    id: str
    type: EventType
    at: Ms
    environment: Environment
    store: str | None = None
    app_id: str | None = None
    product_id: str | None = None
    new_product_id: str | None = None
    # Set for a promotional grant, which names its entitlement itself.
    entitlement_id: str | None = None
    period_type: str | None = None
    purchased_at: Ms | None = None
    expiration_at: Ms | None = None
    original_purchase_at: Ms | None = None
    # None where no money moved.
    price: Price | None = None
    # Of the price, or of the current period's. A refund has those of its payment.
    terms: Terms | None = None
    country: str | None = None
    is_trial_conversion: bool | None = None
    cancellation_reason: Reason | None = None
    expiration_reason: Reason | None = None
    grace_period_expires_at: Ms | None = None
    auto_resume_at: Ms | None = None
    transferred_from: tuple[str, ...] | None = None
    transferred_to: tuple[str, ...] | None = None
    amount: int | None = None
    currency: str | None = None
    transaction_type: str | None = None
    experiment_id: str | None = None
    variant_id: str | None = None
    # The current ids of the merged customers, the absorbed one first.
    joined: tuple[str, ...] | None = None
    transaction_id: str | None = None
    original_transaction_id: str | None = None
    renewal_number: int | None = None
    is_family_share: bool | None = None
    # The lookup key of the offering that it was bought from.
    offering: str | None = None
    offer_code: str | None = None


def event_id(*what: object) -> str:
    """Derived from the content, so a notification that arrives twice cannot create a second event."""
    return str(uuid5(NAMESPACE, "\x1f".join(map(str, what))))


class Dialect(StrEnum):
    """Of a webhook. `revenuecat` is for receivers that were written for that service: it has no types of its own for
    trials and refunds."""

    LATCHKEY = "latchkey"
    REVENUECAT = "revenuecat"


_OTHER_TYPE = {
    EventType.TRIAL_STARTED.value: EventType.INITIAL_PURCHASE.value,
    EventType.TRIAL_CANCELLED.value: EventType.CANCELLATION.value,
    EventType.REFUND.value: EventType.CANCELLATION.value,
}


def vendor_type(type: str, *, continues: bool) -> str:
    """The type of an event in the `revenuecat` dialect. A purchase that goes on with a subscription, after a trial or
    after a lapse, is a renewal there."""
    if continues and type == EventType.INITIAL_PURCHASE:
        return EventType.RENEWAL.value
    return _OTHER_TYPE.get(type, type)


def vendor_selectors(type: str, *, continues: bool) -> tuple[str, ...]:
    """The `event_types` that select the event in the `revenuecat` dialect: that dialect's type; and TRIAL_STARTED,
    TRIAL_CANCELLED and REFUND, which select those events alone."""
    vendor = vendor_type(type, continues=continues)
    return (vendor, type) if type in _OTHER_TYPE else (vendor,)


def selected(types: tuple[str, ...], type: str, *, continues: bool, dialect: str) -> bool:
    """Whether a webhook with these `event_types` gets the event; no types means all."""
    selectors = (type,) if dialect == Dialect.LATCHKEY else vendor_selectors(type, continues=continues)
    return not types or not set(types).isdisjoint(selectors)


class EventDelivery(Struct, frozen=True):
    """An event's delivery to one webhook. The delivery has the event's id."""

    webhook_id: str
    webhook_name: str
    status: str
    attempts: int
    created_at: Ms
    finished_at: Ms | None
    response_status: int | None
    error: str | None
    # The webhook and its log were deleted since.
    is_gone: bool
