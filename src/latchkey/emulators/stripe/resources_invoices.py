"""Invoices in Stripe's own fields."""

from __future__ import annotations

from typing import Any

from latchkey.emulators.stripe.resources_catalog import address
from latchkey.emulators.stripe.state import Invoice, Life, Line, Subscription


def invoice(life: Life, one: Invoice) -> dict[str, Any]:
    customer = life.customers[one.customer]
    total = one.total
    remaining = max(0, one.amount_due - one.amount_paid)
    subscription_details = {
        "metadata": one.metadata,
        "subscription": one.subscription,
        "subscription_proration_date": None,
    }
    return {
        "id": one.id,
        "object": "invoice",
        "account_country": "US",
        "account_name": "Pretend Stripe",
        "amount_due": one.amount_due,
        "amount_overpaid": 0,
        "amount_paid": one.amount_paid,
        "amount_remaining": remaining,
        "amount_shipping": 0,
        "attempt_count": one.attempts,
        "attempted": one.attempts > 0,
        "auto_advance": one.next_attempt is not None or one.finalizes_at is not None,
        "automatic_tax": {"disabled_reason": None, "enabled": False, "liability": None, "status": None},
        "automatically_finalizes_at": one.finalizes_at,
        "billing_reason": one.reason,
        "collection_method": "send_invoice" if one.sent else "charge_automatically",
        "created": one.created,
        "currency": one.currency,
        "customer": one.customer,
        "customer_address": address(customer.country),
        "customer_email": customer.email,
        "customer_name": customer.name,
        "customer_tax_exempt": "none",
        "default_payment_method": None,
        "default_tax_rates": [],
        "description": None,
        "discounts": [],
        "due_date": one.due_date,
        "effective_at": one.finalized_at,
        "ending_balance": one.ending_balance,
        "hosted_invoice_url": f"https://invoice.stripe.com/i/{one.id}" if one.finalized_at else None,
        "invoice_pdf": None,
        "issuer": {"type": "self"},
        "lines": {
            "object": "list",
            "data": [line(life, one, each) for each in one.lines],
            "has_more": False,
            "total_count": len(one.lines),
            "url": f"/v1/invoices/{one.id}/lines",
        },
        "livemode": life.live,
        "metadata": {},
        "next_payment_attempt": one.next_attempt,
        "number": one.number if one.finalized_at else None,
        "parent": {
            "quote_details": None,
            "subscription_details": subscription_details,
            "type": "subscription_details",
        },
        "payment_settings": {
            "default_mandate": None,
            "payment_method_options": None,
            "payment_method_types": None,
        },
        "period_end": one.ends,
        "period_start": one.starts,
        "post_payment_credit_notes_amount": 0,
        "pre_payment_credit_notes_amount": 0,
        "receipt_number": None,
        "starting_balance": one.starting_balance,
        "status": one.status,
        "status_transitions": {
            "finalized_at": one.finalized_at,
            "marked_uncollectible_at": one.uncollectible_at,
            "paid_at": one.paid_at,
            "voided_at": one.voided_at,
        },
        "subtotal": total,
        "subtotal_excluding_tax": total,
        "test_clock": None,
        "total": total,
        "total_discount_amounts": [],
        "total_excluding_tax": total,
        "total_pretax_credit_amounts": [],
        "total_taxes": [],
        "webhooks_delivered_at": one.created,
    }


def line(life: Life, of: Invoice, one: Line) -> dict[str, Any]:
    price = life.prices[one.price]
    return {
        "id": one.id,
        "object": "line_item",
        "amount": one.amount,
        "currency": of.currency,
        "description": one.description,
        "discount_amounts": [],
        "discountable": not one.proration,
        "discounts": [],
        "invoice": of.id,
        "livemode": life.live,
        "metadata": of.metadata,
        "parent": _parent(of, one),
        "period": {"start": one.starts, "end": one.ends},
        "pretax_credit_amounts": [],
        "pricing": {
            "price_details": {"price": price.id, "product": price.product},
            "type": "price_details",
            "unit_amount_decimal": str(price.amount),
        },
        "quantity": one.quantity,
        "subscription": of.subscription,
        "subtotal": one.amount,
        "taxes": [],
    }


def _parent(of: Invoice, one: Line) -> dict[str, Any]:
    """A proration comes from an invoice item, which names the subscription but not its item."""
    if one.proration:
        details = {
            "invoice_item": f"ii_{one.id.removeprefix('il_')}",
            "proration": True,
            "proration_details": {"credited_items": None},
            "subscription": of.subscription,
        }
        return {
            "invoice_item_details": details,
            "subscription_item_details": None,
            "type": "invoice_item_details",
        }
    details = {
        "invoice_item": None,
        "proration": False,
        "proration_details": None,
        "subscription": of.subscription,
        "subscription_item": one.item,
    }
    return {
        "invoice_item_details": None,
        "subscription_item_details": details,
        "type": "subscription_item_details",
    }


def invoice_item(life: Life, of: Subscription, one: Line) -> dict[str, Any]:
    """A proration that waits for the next invoice."""
    price = life.prices[one.price]
    return {
        "id": f"ii_{one.id.removeprefix('il_')}",
        "object": "invoiceitem",
        "amount": one.amount,
        "currency": of.currency,
        "customer": of.customer,
        "date": one.starts,
        "created": one.starts,
        "description": one.description,
        "discountable": False,
        "discounts": [],
        "invoice": None,
        "livemode": life.live,
        "metadata": {},
        "parent": {
            "subscription_details": {"subscription": of.id, "subscription_item": one.item},
            "type": "subscription_details",
        },
        "period": {"start": one.starts, "end": one.ends},
        "pricing": {
            "price_details": {"price": price.id, "product": price.product},
            "type": "price_details",
            "unit_amount_decimal": str(price.amount),
        },
        "proration": True,
        "quantity": one.quantity,
        "tax_rates": [],
    }


def invoice_payment(life: Life, one: Invoice) -> dict[str, Any] | None:
    """Its only payment. An invoice that costs nothing has none."""
    if one.intent is None:
        return None
    status = {"paid": "paid", "void": "canceled"}.get(one.status, "open")
    return {
        "id": f"inpay_{one.id.removeprefix('in_')}",
        "object": "invoice_payment",
        "amount_paid": one.amount_paid if status == "paid" else None,
        "amount_requested": one.amount_due,
        "created": one.finalized_at,
        "currency": one.currency,
        "invoice": one.id,
        "is_default": True,
        "livemode": life.live,
        "payment": {"payment_intent": one.intent, "type": "payment_intent"},
        "status": status,
        "status_transitions": {
            "canceled_at": one.voided_at,
            "paid_at": one.paid_at if status == "paid" else None,
        },
    }
