"""The body of a delivery in the dialect of its webhook.

A pure function of the stored event, so that every attempt of a delivery sends the same bytes.
"""

from typing import Any, TypeVar

from msgspec import UNSET, UnsetType, json

from latchkey.domain.events.customer_event import Dialect, EventType, vendor_type
from latchkey.domain.stores.store import PROMOTIONAL
from latchkey.subjects.webhooks.delivery.destination import Outgoing, compiled
from latchkey.subjects.webhooks.rules import Webhook
from latchkey.wire.event import API_VERSION, Event, continues

_BEFORE, _AFTER = b'{"api_version":"%s","event":' % API_VERSION.encode(), b"}"
_EVENT = json.Decoder(Event)
T = TypeVar("T")
_USD = "USD"

# Types that are about no purchase: they have none of a purchase's fields.
_WITHOUT_PURCHASE = {
    EventType.TRANSFER,
    EventType.SUBSCRIBER_ALIAS,
    EventType.EXPERIMENT_ENROLLMENT,
    EventType.VIRTUAL_CURRENCY_TRANSACTION,
}


def outgoing_of(webhook: Webhook, event: bytes, dialect: str | None, public_url: str = "") -> Outgoing | None:
    """What to send for a stored event. None: a destination has no use for it, because the customer is unknown there."""
    if webhook.destination is not None:
        dashboard = f"{public_url}/dashboard/projects/{webhook.project_id}" if public_url else ""
        return compiled(webhook.destination).outgoing(event, dashboard)
    return Outgoing(webhook.url, body_of(event, dialect))


def shown_body(webhook: Webhook, outgoing: Outgoing | None) -> bytes:
    """The body as the log shows it: JSON, without secrets."""
    if webhook.destination is None or outgoing is None:
        return outgoing.body if outgoing is not None else b"null"
    return compiled(webhook.destination).masked(outgoing).body


def body_of(event: bytes, dialect: str | None) -> bytes:
    """The body to send for a stored event. No dialect is the default one, in which the event is stored."""
    if dialect is None or dialect == Dialect.LATCHKEY:
        return _BEFORE + event + _AFTER
    return _BEFORE + json.encode(as_vendor(_EVENT.decode(event))) + _AFTER


def as_vendor(event: Event) -> dict[str, Any]:
    """The event in the `revenuecat` dialect. Fields of ours that it lacks are kept: its receivers ignore them."""
    body: dict[str, Any] = {
        "id": event.id,
        "type": vendor_type(event.type, continues=continues(event)),
        "event_timestamp_ms": event.event_timestamp_ms,
        "app_user_id": event.app_user_id,
        "original_app_user_id": event.original_app_user_id,
        # All ids of the customer. In our own form the current one is not repeated here.
        "aliases": list(dict.fromkeys((event.app_user_id, *event.aliases))),
        "environment": event.environment,
        # Never null: receivers check for a text. An event of a customer without purchases is Latchkey's own.
        "store": (event.store or PROMOTIONAL).upper(),
        "app_id": _or_null(event.app_id) or "",
        "subscriber_attributes": {} if event.subscriber_attributes is UNSET else event.subscriber_attributes,
    }
    if event.type not in _WITHOUT_PURCHASE:
        body |= _purchase(event)
    body |= _own_fields(event, body["type"])
    body["entitlements"] = event.entitlements
    for name in ("exchange_rate", "merged_sequences", "sequence"):
        value = getattr(event, name)
        if value is not UNSET:
            body[name] = value
    return body


def _purchase(event: Event) -> dict[str, Any]:
    refund = event.type == EventType.REFUND
    sign = -1 if refund else 1
    expiration = event.expiration_at_ms
    if refund and (expiration is None or expiration > event.event_timestamp_ms):
        # The refund ended the access, and no EXPIRATION follows.
        expiration = event.event_timestamp_ms
    number = event.renewal_number
    return {
        "product_id": event.product_id,
        "entitlement_id": None,
        "entitlement_ids": _or_null(event.entitlement_ids) or None,
        "period_type": event.period_type and event.period_type.upper(),
        "purchased_at_ms": event.purchased_at_ms,
        "expiration_at_ms": expiration,
        "original_purchase_date_ms": event.original_purchase_date_ms,
        "price": sign * event.price or 0,
        "price_in_purchased_currency": sign * event.price_in_purchased_currency or 0,
        # Numbers and a currency on every event, also where no money moved: receivers check for them.
        "currency": event.currency or _USD,
        "takehome_percentage": event.takehome_percentage,
        "tax_percentage": _or_null(event.tax_percentage) or 0,
        "commission_percentage": round(1 - event.takehome_percentage, 4)
        if event.commission_percentage is UNSET
        else event.commission_percentage,
        "transaction_id": _or_null(event.transaction_id),
        "original_transaction_id": _or_null(event.original_transaction_id),
        "is_family_share": event.is_family_share is True,
        "country_code": _or_null(event.country_code),
        "offer_code": _or_null(event.offer_code),
        "presented_offering_id": _or_null(event.presented_offering_id),
        # ReplayCount from 1 there, from 0 in our own form.
        "renewal_number": None if number is UNSET else number + 1,
    }


# By type as the vendor has it, the fields that only some types have: the event's own name, and what stands for nothing.
_OWN_FIELDS: dict[str, dict[str, tuple[str, Any]]] = {
    "TRANSFER": {"transferred_from": ("transferred_from", []), "transferred_to": ("transferred_to", [])},
    "RENEWAL": {"is_trial_conversion": ("is_trial_conversion", False)},
    "CANCELLATION": {"cancel_reason": ("cancellation_reason", "UNKNOWN")},
    "EXPIRATION": {"expiration_reason": ("expiration_reason", "UNKNOWN")},
    "BILLING_ISSUE": {"grace_period_expiration_at_ms": ("grace_period_expires_at_ms", None)},
    "PRODUCT_CHANGE": {"new_product_id": ("new_product_id", None)},
    "SUBSCRIPTION_PAUSED": {"auto_resume_at_ms": ("auto_resume_at_ms", None)},
}


def _own_fields(event: Event, told_as: str) -> dict[str, Any]:
    match event.type:
        case EventType.VIRTUAL_CURRENCY_TRANSACTION:
            return _currency(event)
        case EventType.EXPERIMENT_ENROLLMENT:
            at = event.event_timestamp_ms
            return {
                "experiment_id": _or_null(event.experiment_id),
                "experiment_variant": _or_null(event.variant_id),
                "offering_id": None,
                # Documented under both names.
                "enrolled_at_ms": at,
                "experiment_enrolled_at_ms": at,
            }
        case EventType.REFUND:
            return {"cancel_reason": "CUSTOMER_SUPPORT"}
    own = _OWN_FIELDS.get(told_as, {})
    return {name: _or_null(getattr(event, ours)) or nothing for name, (ours, nothing) in own.items()}


def _currency(event: Event) -> dict[str, Any]:
    amount = _or_null(event.amount) or 0
    spent = event.transaction_type == "debit"
    return {
        "adjustments": [
            {
                "amount": -amount if spent else amount,
                # The event has only the code.
                "currency": {"code": event.currency, "name": event.currency, "description": ""},
            }
        ],
        "product_id": event.product_id,
        "product_display_name": event.product_id,
        "purchase_environment": event.environment,
        "source": "in_app_purchase" if event.product_id is not None else "admin_api",
        "transaction_id": _or_null(event.transaction_id),
        "virtual_currency_transaction_id": event.id,
    }


def _or_null(value: T | UnsetType) -> T | None:
    return None if value is UNSET else value
