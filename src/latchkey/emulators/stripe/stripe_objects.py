"""The books in Stripe's own fields, in the form of the API version below."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from latchkey.emulators.stripe import stripe_catalog_objects as catalog
from latchkey.emulators.stripe.stripe_books import (
    CheckoutItem,
    CheckoutSession,
    InvoiceLine,
    PaymentIntent,
    SetupIntent,
    StripeBooks,
    StripeCharge,
    StripeCustomer,
    StripeDispute,
    StripeInvoice,
    StripePrice,
    StripeProduct,
    StripeRefund,
    StripeSubscription,
    drawn,
)
from latchkey.emulators.stripe.stripe_catalog_objects import address

API_VERSION = "2026-10-28.endive"


def invoice(life: StripeBooks, one: StripeInvoice) -> dict[str, Any]:
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


def line(life: StripeBooks, of: StripeInvoice, one: InvoiceLine) -> dict[str, Any]:
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


def _parent(of: StripeInvoice, one: InvoiceLine) -> dict[str, Any]:
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


def invoice_item(life: StripeBooks, of: StripeSubscription, one: InvoiceLine) -> dict[str, Any]:
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


def invoice_payment(life: StripeBooks, one: StripeInvoice) -> dict[str, Any] | None:
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


def intent(life: StripeBooks, one: PaymentIntent) -> dict[str, Any]:
    failure = {
        "charge": one.charge,
        "code": "card_declined",
        "decline_code": "generic_decline",
        "message": "Your card was declined.",
        "type": "card_error",
    }
    paid = one.status == "succeeded"
    return {
        "id": one.id,
        "object": "payment_intent",
        "amount": one.amount,
        "amount_capturable": 0,
        "amount_received": one.amount if paid else 0,
        "automatic_payment_methods": {"allow_redirects": "always", "enabled": True},
        "canceled_at": None,
        "cancellation_reason": None,
        "capture_method": "automatic",
        "client_secret": one.secret,
        "confirmation_method": "automatic",
        "created": one.created,
        "currency": one.currency,
        "customer": one.customer,
        "description": None,
        "last_payment_error": failure if one.failed else None,
        "latest_charge": one.charge,
        "livemode": life.live,
        "metadata": one.metadata,
        "next_action": None,
        "payment_method": f"pm_{one.id.removeprefix('pi_')}" if paid else None,
        "payment_method_types": ["card"],
        "processing": None,
        "receipt_email": None,
        "setup_future_usage": one.setup_future_usage,
        "shipping": None,
        "statement_descriptor": None,
        "status": one.status,
    }


def setup(life: StripeBooks, one: SetupIntent) -> dict[str, Any]:
    return {
        "id": one.id,
        "object": "setup_intent",
        "automatic_payment_methods": {"allow_redirects": "always", "enabled": True},
        "cancellation_reason": None,
        "client_secret": one.secret,
        "created": one.created,
        "customer": one.customer,
        "description": None,
        "last_setup_error": None,
        "latest_attempt": None,
        "livemode": life.live,
        "metadata": one.metadata,
        "next_action": None,
        "payment_method": f"pm_{one.id.removeprefix('seti_')}" if one.status == "succeeded" else None,
        "payment_method_types": ["card"],
        "status": one.status,
        "usage": "off_session",
    }


def charge(life: StripeBooks, one: StripeCharge) -> dict[str, Any]:
    customer = life.customers.get(one.customer or "")
    failed = not one.succeeded
    return {
        "id": one.id,
        "object": "charge",
        "amount": one.amount,
        "amount_captured": one.amount if one.succeeded else 0,
        "amount_refunded": one.refunded,
        "balance_transaction": f"txn_{one.id.removeprefix('ch_')}" if one.succeeded else None,
        "billing_details": {
            "address": address(one.country)
            or {"city": None, "country": None, "line1": None, "line2": None, "postal_code": None, "state": None},
            "email": customer.email if customer else None,
            "name": customer.name if customer else None,
            "phone": None,
            "tax_id": None,
        },
        "captured": one.succeeded,
        "created": one.created,
        "currency": one.currency,
        "customer": one.customer,
        "description": None,
        "disputed": one.disputed,
        "failure_code": "card_declined" if failed else None,
        "failure_message": "Your card was declined." if failed else None,
        "fraud_details": {},
        "livemode": life.live,
        "metadata": one.metadata,
        "outcome": None,
        "paid": one.succeeded,
        "payment_intent": one.intent,
        "payment_method": f"pm_{one.intent.removeprefix('pi_')}",
        "payment_method_details": {
            "card": {
                "brand": "visa",
                "country": one.country,
                "funding": "credit",
                "last4": "0341" if failed else "4242",
            },
            "type": "card",
        },
        "receipt_email": None,
        "receipt_number": None,
        "receipt_url": None,
        "refunded": one.succeeded and one.refunded >= one.amount > 0,
        "review": None,
        "shipping": None,
        "source": None,
        "statement_descriptor": None,
        "status": "failed" if failed else "succeeded",
    }


def refund(life: StripeBooks, one: StripeRefund) -> dict[str, Any]:
    failed = one.status == "failed"
    return {
        "id": one.id,
        "object": "refund",
        "amount": one.amount,
        "balance_transaction": f"txn_{one.id.removeprefix('re_')}",
        "charge": one.charge,
        "created": one.created,
        "currency": one.currency,
        "customer": life.charges[one.charge].customer,
        "destination_details": {"card": {"type": "refund"}, "type": "card"},
        "failure_balance_transaction": f"txn_failed_{one.id.removeprefix('re_')}" if failed else None,
        "failure_reason": "lost_or_stolen_card" if failed else None,
        "metadata": one.metadata,
        "payment_intent": one.intent,
        "reason": one.reason,
        "receipt_number": None,
        "source_transfer_reversal": None,
        "status": one.status,
        "transfer_reversal": None,
    }


def failure_movement(one: StripeRefund) -> dict[str, Any]:
    """The money of a refund that failed comes back to the account."""
    return _movement(f"txn_failed_{one.id.removeprefix('re_')}", one.id, one.amount, one.currency, one.failed_at or 0)


def dispute(life: StripeBooks, one: StripeDispute) -> dict[str, Any]:
    rest = one.id.removeprefix("du_")
    moved = [_movement(f"txn_out_{rest}", one.id, -one.amount, one.currency, one.created)]
    if one.reinstated_at is not None:
        moved.append(_movement(f"txn_in_{rest}", one.id, one.amount, one.currency, one.reinstated_at))
    return {
        "id": one.id,
        "object": "dispute",
        "amount": one.amount,
        "balance_transactions": moved,
        "charge": one.charge,
        "created": one.created,
        "currency": one.currency,
        "enhanced_eligibility_types": [],
        "evidence": {},
        "evidence_details": {"due_by": None, "has_evidence": False, "past_due": False, "submission_count": 0},
        "is_charge_refundable": False,
        "livemode": life.live,
        "metadata": {},
        "payment_intent": one.intent,
        "reason": one.reason,
        "status": one.status,
    }


def session(life: StripeBooks, one: CheckoutSession) -> dict[str, Any]:
    customer = life.customers.get(one.customer or "")
    total = sum(life.prices[item.price].amount * item.quantity for item in one.items)
    free = one.mode == "setup" or bool(one.trial_days or one.trial_end) or total == 0
    paid = "no_payment_required" if free else "paid"
    hosted = one.ui_mode == "hosted_page"
    return {
        "id": one.id,
        "object": "checkout.session",
        "adaptive_pricing": {"enabled": False},
        "allow_promotion_codes": None,
        "amount_subtotal": 0 if free else total,
        "amount_total": 0 if free else total,
        "automatic_tax": {"enabled": False, "liability": None, "provider": None, "status": None},
        "billing_address_collection": None,
        "cancel_url": one.cancel_url,
        "client_reference_id": one.client_reference_id,
        "client_secret": session_secret(life, one) if not hosted and one.status == "open" else None,
        "collected_information": None,
        "consent": None,
        "consent_collection": None,
        "created": one.created,
        "currency": one.currency,
        "custom_fields": [],
        "custom_text": {"after_submit": None, "shipping_address": None, "submit": None},
        "customer": one.customer,
        "customer_creation": "always" if one.mode == "subscription" or one.makes_customer else "if_required",
        "customer_details": {
            "address": address(customer.country if customer else None),
            "email": (customer.email if customer else None) or one.email,
            "name": customer.name if customer else None,
            "phone": None,
            "tax_exempt": "none",
            "tax_ids": [],
        }
        if one.status == "complete"
        else None,
        "customer_email": one.email,
        "discounts": [],
        "expires_at": one.expires_at,
        "invoice": one.invoice,
        "invoice_creation": None,
        "livemode": life.live,
        "locale": None,
        "metadata": one.metadata,
        "mode": one.mode,
        "payment_intent": one.intent,
        "payment_link": None,
        "payment_method_collection": "always",
        "payment_method_types": ["card"],
        "payment_status": paid if free or one.status == "complete" else "unpaid",
        "redirect_on_completion": None if hosted else ("always" if one.return_url else "never"),
        "return_url": one.return_url,
        "setup_intent": one.setup,
        "shipping_cost": None,
        "shipping_options": [],
        "status": one.status,
        "submit_type": None,
        "subscription": one.subscription,
        "success_url": one.success_url,
        "total_details": {"amount_discount": 0, "amount_shipping": 0, "amount_tax": 0},
        "ui_mode": one.ui_mode,
        "url": f"{one.page_at}/pay/{one.id}" if hosted and one.status == "open" else None,
    }


def session_secret(life: StripeBooks, one: CheckoutSession) -> str:
    return f"{one.id}_secret_{drawn(life.series, f'secret of {one.id}', 25)}"


def session_item(life: StripeBooks, of: CheckoutSession, one: CheckoutItem) -> dict[str, Any]:
    sold = life.prices[one.price]
    amount = sold.amount * one.quantity
    free = of.mode == "subscription" and bool(of.trial_days or of.trial_end)
    return {
        "id": one.id,
        "object": "item",
        "amount_discount": 0,
        "amount_subtotal": 0 if free else amount,
        "amount_tax": 0,
        "amount_total": 0 if free else amount,
        "currency": sold.currency,
        "description": life.products[sold.product].name,
        "metadata": {},
        "price": catalog.price(life, sold),
        "quantity": one.quantity,
    }


def _movement(id: str, source: str, amount: int, currency: str, at: int) -> dict[str, Any]:
    return {
        "id": id,
        "object": "balance_transaction",
        "amount": amount,
        "created": at,
        "currency": currency,
        "fee": 0,
        "net": amount,
        "source": source,
        "status": "available",
        "type": "refund_failure" if source.startswith("re_") else "adjustment",
    }


_RENDERERS: dict[type, Callable[[StripeBooks, Any], dict[str, Any]]] = {
    StripeSubscription: catalog.subscription,
    StripeInvoice: invoice,
    PaymentIntent: intent,
    SetupIntent: setup,
    StripeCharge: charge,
    StripeRefund: refund,
    StripeDispute: dispute,
    CheckoutSession: session,
    StripeCustomer: catalog.customer,
    StripePrice: catalog.price,
    StripeProduct: catalog.product,
}


def rendered(life: StripeBooks, one: Any) -> dict[str, Any]:
    return _RENDERERS[type(one)](life, one)
