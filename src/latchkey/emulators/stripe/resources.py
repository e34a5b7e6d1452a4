"""The books in Stripe's own fields, in the form of the API version below."""

from __future__ import annotations

from typing import Any

from latchkey.emulators.stripe import resources_catalog as catalog
from latchkey.emulators.stripe import resources_invoices as invoices
from latchkey.emulators.stripe import resources_paying as paying
from latchkey.emulators.stripe.state import (
    Charge,
    Customer,
    Dispute,
    Intent,
    Invoice,
    Item,
    Life,
    Price,
    Product,
    Refund,
    Session,
    Setup,
    Subscription,
    next_period,
)

API_VERSION = "2026-10-28.endive"


def rendered(life: Life, one: Any) -> dict[str, Any]:
    match one:
        case Subscription():
            return subscription(life, one)
        case Invoice():
            return invoices.invoice(life, one)
        case Intent():
            return paying.intent(life, one)
        case Setup():
            return paying.setup(life, one)
        case Charge():
            return paying.charge(life, one)
        case Refund():
            return paying.refund(life, one)
        case Dispute():
            return paying.dispute(life, one)
        case Session():
            return paying.session(life, one)
        case Customer():
            return catalog.customer(life, one)
        case Price():
            return catalog.price(life, one)
        case Product():
            return catalog.product(life, one)
    raise AssertionError(one)


def subscription(life: Life, one: Subscription) -> dict[str, Any]:
    cancel_at = one.ends if one.cancel_at_period_end else one.cancel_at
    return {
        "id": one.id,
        "object": "subscription",
        "application": None,
        "application_fee_percent": None,
        "automatic_tax": {"disabled_reason": None, "enabled": False, "liability": None},
        "billing_cycle_anchor": one.anchor,
        "billing_cycle_anchor_config": None,
        "billing_mode": {"flexible": None, "type": "classic", "updated_at": None},
        "billing_schedules": [],
        "billing_thresholds": None,
        "cancel_at": cancel_at,
        "cancel_at_period_end": one.cancel_at_period_end,
        "canceled_at": one.canceled_at,
        "cancellation_details": {"comment": None, "feedback": None, "reason": one.cancel_reason},
        "collection_method": "send_invoice" if one.sends_invoices else "charge_automatically",
        "created": one.created,
        "currency": one.currency,
        "customer": one.customer,
        "customer_account": None,
        "days_until_due": one.days_until_due,
        "default_payment_method": None,
        "default_source": None,
        "default_tax_rates": [],
        "description": None,
        "discounts": [],
        "ended_at": one.ended_at,
        "invoice_settings": {"account_tax_ids": None, "issuer": {"type": "self"}},
        "items": listed(f"/v1/subscription_items?subscription={one.id}", [item(life, one, i) for i in one.items]),
        "latest_invoice": one.latest_invoice,
        "livemode": life.live,
        "metadata": one.metadata,
        "next_pending_invoice_item_invoice": None,
        "on_behalf_of": None,
        "pause_collection": None
        if one.pause is None
        else {"behavior": one.pause.behavior, "resumes_at": one.pause.resumes_at},
        "payment_settings": {
            "payment_method_options": None,
            "payment_method_types": None,
            "save_default_payment_method": "on_subscription",
        },
        "pending_invoice_item_interval": None,
        "pending_setup_intent": _pending_setup(life, one),
        "pending_update": None,
        "schedule": one.schedule,
        "start_date": one.created,
        "status": str(one.status),
        "test_clock": None,
        "transfer_data": None,
        "trial_end": one.trial_end,
        "trial_settings": {
            "end_behavior": {"billing_cycle_anchor": None, "missing_payment_method": one.no_card or "create_invoice"}
        },
        "trial_start": one.trial_start,
    }


def item(life: Life, of: Subscription, one: Item) -> dict[str, Any]:
    sold = life.prices[one.price]
    return {
        "id": one.id,
        "object": "subscription_item",
        "billing_thresholds": None,
        "created": one.created,
        "current_period_end": one.ends,
        "current_period_start": one.starts,
        "discounts": [],
        "metadata": {},
        "plan": {
            "id": sold.id,
            "object": "plan",
            "active": sold.active,
            "amount": sold.amount,
            "amount_decimal": str(sold.amount),
            "billing_scheme": "per_unit",
            "created": sold.created,
            "currency": sold.currency,
            "interval": sold.interval,
            "interval_count": sold.count,
            "livemode": life.live,
            "metadata": sold.metadata,
            "product": sold.product,
            "usage_type": "licensed",
        },
        "price": catalog.price(life, sold),
        "quantity": one.quantity,
        "subscription": of.id,
        "tax_rates": [],
    }


def schedule(life: Life, one: Subscription) -> dict[str, Any]:
    """The subscription schedule of a change that waits for the end of the period."""
    following = one.next_price or one.items[0].price
    ends = next_period(life.prices[following], one.ends, one.anchor)
    return {
        "id": one.schedule,
        "object": "subscription_schedule",
        "created": one.starts,
        "canceled_at": None,
        "completed_at": None,
        "current_phase": {"start_date": one.starts, "end_date": one.ends},
        "customer": one.customer,
        "end_behavior": "release",
        "livemode": life.live,
        "metadata": {},
        "phases": [
            _phase(one.items[0].price, one.starts, one.ends, one.items[0].quantity),
            _phase(following, one.ends, ends, one.items[0].quantity),
        ],
        "released_at": None,
        "released_subscription": None,
        "status": "active",
        "subscription": one.id,
    }


def listed(url: str, data: list[dict[str, Any]], *, has_more: bool = False) -> dict[str, Any]:
    return {"object": "list", "data": data, "has_more": has_more, "url": url}


def _phase(price: str, starts: int, ends: int, quantity: int) -> dict[str, Any]:
    return {
        "items": [{"price": price, "plan": price, "quantity": quantity, "metadata": {}}],
        "start_date": starts,
        "end_date": ends,
        "proration_behavior": "none",
        "metadata": {},
    }


def _pending_setup(life: Life, one: Subscription) -> str | None:
    found = life.setups.get(one.setup or "")
    return found.id if found is not None and found.status != "succeeded" else None
