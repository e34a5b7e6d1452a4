"""Products, prices and customers in Stripe's own fields."""

from __future__ import annotations

from typing import Any

from latchkey.emulators.stripe.state import Customer, Life, Price, Product


def product(life: Life, one: Product) -> dict[str, Any]:
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


def price(life: Life, one: Price) -> dict[str, Any]:
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


def customer(life: Life, one: Customer) -> dict[str, Any]:
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


def _recurring(one: Price) -> dict[str, Any] | None:
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
