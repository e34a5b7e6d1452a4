"""Payments, refunds, disputes and checkout sessions in Stripe's own fields."""

from __future__ import annotations

from typing import Any

from latchkey.emulators.stripe.resources_catalog import address
from latchkey.emulators.stripe.resources_catalog import price as price_resource
from latchkey.emulators.stripe.state import (
    Charge,
    Dispute,
    Intent,
    Life,
    Refund,
    Session,
    SessionItem,
    Setup,
    drawn,
)


def intent(life: Life, one: Intent) -> dict[str, Any]:
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


def setup(life: Life, one: Setup) -> dict[str, Any]:
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


def charge(life: Life, one: Charge) -> dict[str, Any]:
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


def refund(life: Life, one: Refund) -> dict[str, Any]:
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


def failure_movement(one: Refund) -> dict[str, Any]:
    """The money of a refund that failed comes back to the account."""
    return _movement(f"txn_failed_{one.id.removeprefix('re_')}", one.id, one.amount, one.currency, one.failed_at or 0)


def dispute(life: Life, one: Dispute) -> dict[str, Any]:
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


def session(life: Life, one: Session) -> dict[str, Any]:
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


def session_secret(life: Life, one: Session) -> str:
    return f"{one.id}_secret_{drawn(life.series, f'secret of {one.id}', 25)}"


def session_item(life: Life, of: Session, one: SessionItem) -> dict[str, Any]:
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
        "price": price_resource(life, sold),
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
