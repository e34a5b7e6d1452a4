"""Subscriptions, products, prices and customers in Stripe's own fields."""

from __future__ import annotations

from typing import Any

from latchkey.emulators.stripe.stripe_books import (
    StripeBooks,
    StripeCustomer,
    StripeItem,
    StripePrice,
    StripeProduct,
    StripeSubscription,
    next_period,
)


def subscription(life: StripeBooks, one: StripeSubscription) -> dict[str, Any]:
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


def item(life: StripeBooks, of: StripeSubscription, one: StripeItem) -> dict[str, Any]:
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
        "price": price(life, sold),
        "quantity": one.quantity,
        "subscription": of.id,
        "tax_rates": [],
    }


def schedule(life: StripeBooks, one: StripeSubscription) -> dict[str, Any]:
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


def _pending_setup(life: StripeBooks, one: StripeSubscription) -> str | None:
    found = life.setups.get(one.setup or "")
    return found.id if found is not None and found.status != "succeeded" else None


def product(life: StripeBooks, one: StripeProduct) -> dict[str, Any]:
    first = next((price.id for price in life.prices.values() if price.product == one.id), None)
    return {
        "id": one.id,
        "object": "product",
        "active": one.active,
        "created": one.created,
        "default_price": first,
        "description": None,
        "images": [],
        "livemode": life.live,
        "marketing_features": [],
        "metadata": one.metadata,
        "name": one.name,
        "package_dimensions": None,
        "shippable": None,
        "statement_descriptor": None,
        "tax_code": None,
        "type": "service",
        "unit_label": None,
        "updated": one.created,
        "url": None,
    }


def price(life: StripeBooks, one: StripePrice) -> dict[str, Any]:
    return {
        "id": one.id,
        "object": "price",
        "active": one.active,
        "billing_scheme": "per_unit",
        "created": one.created,
        "currency": one.currency,
        "custom_unit_amount": None,
        "livemode": life.live,
        "lookup_key": one.lookup_key,
        "metadata": one.metadata,
        "nickname": None,
        "product": one.product,
        "recurring": _recurring(one),
        "tax_behavior": "unspecified",
        "tiers_mode": None,
        "transform_quantity": None,
        "type": "recurring" if one.interval else "one_time",
        "unit_amount": one.amount,
        "unit_amount_decimal": str(one.amount),
    }


def customer(life: StripeBooks, one: StripeCustomer) -> dict[str, Any]:
    return {
        "id": one.id,
        "object": "customer",
        "address": address(one.country),
        "balance": one.balance,
        "created": one.created,
        "currency": None,
        "default_source": None,
        "delinquent": False,
        "description": None,
        "email": one.email,
        "invoice_prefix": one.id[-8:].upper(),
        "invoice_settings": {
            "custom_fields": None,
            "default_payment_method": None,
            "footer": None,
            "rendering_options": None,
        },
        "livemode": life.live,
        "metadata": one.metadata,
        "name": one.name,
        "next_invoice_sequence": 1,
        "phone": None,
        "preferred_locales": [],
        "shipping": None,
        "tax_exempt": "none",
        "test_clock": None,
    }


def _recurring(one: StripePrice) -> dict[str, Any] | None:
    if one.interval is None:
        return None
    return {
        "interval": one.interval,
        "interval_count": one.count,
        "meter": None,
        "trial_period_days": None,
        "usage_type": "licensed",
    }


def address(country: str | None) -> dict[str, Any] | None:
    if country is None:
        return None
    return {"city": None, "country": country, "line1": None, "line2": None, "postal_code": None, "state": None}
