"""The books in Stripe's own fields, in the form of the API version below."""

from collections.abc import Callable, Iterator
from typing import Any

from latchkey.emulators.stripe import stripe_books
from latchkey.emulators.stripe import stripe_catalog_objects as catalog
from latchkey.emulators.stripe.stripe_books import StripeBooks
from latchkey.emulators.stripe.stripe_catalog_objects import Json, address, postal_address, renders

API_VERSION = "2026-10-28.endive"


@renders("invoice")
def invoice(books: StripeBooks, invoice: stripe_books.StripeInvoice) -> Json:
    customer = books.customers[invoice.customer]
    total = invoice.total
    remaining = max(0, invoice.amount_due - invoice.amount_paid)
    subscription_details = {
        "metadata": invoice.metadata,
        "subscription": invoice.subscription,
        "subscription_proration_date": None,
    }
    return {
        "amount_remaining": remaining,
        "attempted": invoice.attempt_count > 0,
        "auto_advance": invoice.next_payment_attempt is not None or invoice.automatically_finalizes_at is not None,
        "collection_method": "send_invoice" if invoice.sent else "charge_automatically",
        "customer_address": address(customer.country),
        "customer_email": customer.email,
        "customer_name": customer.name,
        "effective_at": invoice.finalized_at,
        "hosted_invoice_url": f"https://invoice.stripe.com/i/{invoice.id}" if invoice.finalized_at else None,
        "lines": {
            "object": "list",
            "data": [line(books, invoice, each) for each in invoice.lines],
            "has_more": False,
            "total_count": len(invoice.lines),
            "url": f"/v1/invoices/{invoice.id}/lines",
        },
        "number": invoice.number if invoice.finalized_at else None,
        "parent": {"quote_details": None, "subscription_details": subscription_details, "type": "subscription_details"},
        "status_transitions": {
            "finalized_at": invoice.finalized_at,
            "marked_uncollectible_at": invoice.uncollectible_at,
            "paid_at": invoice.paid_at,
            "voided_at": invoice.voided_at,
        },
        "subtotal": total,
        "subtotal_excluding_tax": total,
        "total": total,
        "total_excluding_tax": total,
        "webhooks_delivered_at": invoice.created,
    }


@renders("line_item")
def line(books: StripeBooks, invoice: stripe_books.StripeInvoice, line: stripe_books.InvoiceLine) -> Json:
    return {
        "currency": invoice.currency,
        "discountable": not line.proration,
        "invoice": invoice.id,
        "metadata": invoice.metadata,
        "parent": _parent(invoice, line),
        "period": {"start": line.starts, "end": line.ends},
        "pricing": _pricing(books, line),
        "subscription": invoice.subscription,
        "subtotal": line.amount,
    }


def _pricing(books: StripeBooks, line: stripe_books.InvoiceLine) -> Json:
    price = books.prices[line.price]
    return {
        "price_details": {"price": price.id, "product": price.product},
        "type": "price_details",
        "unit_amount_decimal": str(price.amount),
    }


def _parent(invoice: stripe_books.StripeInvoice, line: stripe_books.InvoiceLine) -> Json:
    """A proration comes from an invoice item, which names the subscription but not its item."""
    if line.proration:
        details = {
            "invoice_item": f"ii_{line.id.removeprefix('il_')}",
            "proration": True,
            "proration_details": {"credited_items": None},
            "subscription": invoice.subscription,
        }
        return {"invoice_item_details": details, "subscription_item_details": None, "type": "invoice_item_details"}
    details = {
        "invoice_item": None,
        "proration": False,
        "proration_details": None,
        "subscription": invoice.subscription,
        "subscription_item": line.item,
    }
    return {"invoice_item_details": None, "subscription_item_details": details, "type": "subscription_item_details"}


@renders("invoiceitem")
def invoice_item(
    books: StripeBooks, subscription: stripe_books.StripeSubscription, line: stripe_books.InvoiceLine
) -> Json:
    """A proration that waits for the next invoice."""
    return {
        "id": f"ii_{line.id.removeprefix('il_')}",
        "currency": subscription.currency,
        "customer": subscription.customer,
        "date": line.starts,
        "created": line.starts,
        "parent": {
            "subscription_details": {"subscription": subscription.id, "subscription_item": line.item},
            "type": "subscription_details",
        },
        "period": {"start": line.starts, "end": line.ends},
        "pricing": _pricing(books, line),
    }


@renders("invoice_payment")
def invoice_payment(_: StripeBooks, invoice: stripe_books.StripeInvoice) -> Json:
    """The only payment of an invoice. One that costs nothing has none."""
    status = {"paid": "paid", "void": "canceled"}.get(invoice.status, "open")
    return {
        "id": f"inpay_{invoice.id.removeprefix('in_')}",
        "amount_paid": invoice.amount_paid if status == "paid" else None,
        "amount_requested": invoice.amount_due,
        "created": invoice.finalized_at,
        "invoice": invoice.id,
        "payment": {"payment_intent": invoice.payment_intent, "type": "payment_intent"},
        "status": status,
        "status_transitions": {
            "canceled_at": invoice.voided_at,
            "paid_at": invoice.paid_at if status == "paid" else None,
        },
    }


@renders("payment_intent")
def intent(_: StripeBooks, intent: stripe_books.PaymentIntent) -> Json:
    failure = {
        "charge": intent.latest_charge,
        "code": "card_declined",
        "decline_code": "generic_decline",
        "message": "Your card was declined.",
        "type": "card_error",
    }
    paid = intent.status == "succeeded"
    return {
        "amount_received": intent.amount if paid else 0,
        "last_payment_error": failure if intent.failed else None,
        "payment_method": f"pm_{intent.id.removeprefix('pi_')}" if paid else None,
    }


@renders("setup_intent")
def setup(_: StripeBooks, setup: stripe_books.SetupIntent) -> Json:
    return {"payment_method": f"pm_{setup.id.removeprefix('seti_')}" if setup.status == "succeeded" else None}


@renders("charge")
def charge(books: StripeBooks, charge: stripe_books.StripeCharge) -> Json:
    customer = books.customers.get(charge.customer or "")
    failed, last4 = (False, "4242") if charge.succeeded else (True, "0341")
    return {
        "amount_captured": charge.amount if charge.succeeded else 0,
        "balance_transaction": f"txn_{charge.id.removeprefix('ch_')}" if charge.succeeded else None,
        "billing_details": {
            "address": postal_address(charge.country),
            "email": customer.email if customer else None,
            "name": customer.name if customer else None,
            "phone": None,
            "tax_id": None,
        },
        "captured": charge.succeeded,
        "failure_code": "card_declined" if failed else None,
        "failure_message": "Your card was declined." if failed else None,
        "paid": charge.succeeded,
        "payment_method": f"pm_{charge.payment_intent.removeprefix('pi_')}",
        "payment_method_details": {
            "card": {"brand": "visa", "country": charge.country, "funding": "credit", "last4": last4},
            "type": "card",
        },
        "refunded": charge.succeeded and charge.amount_refunded >= charge.amount > 0,
        "status": "failed" if failed else "succeeded",
    }


@renders("refund")
def refund(books: StripeBooks, refund: stripe_books.StripeRefund) -> Json:
    failed = refund.status == "failed"
    return {
        "balance_transaction": f"txn_{refund.id.removeprefix('re_')}",
        "customer": books.charges[refund.charge].customer,
        "failure_balance_transaction": f"txn_failed_{refund.id.removeprefix('re_')}" if failed else None,
        "failure_reason": "lost_or_stolen_card" if failed else None,
    }


def failure_movement(books: StripeBooks, refund: stripe_books.StripeRefund) -> Json:
    """The money of a refund that failed comes back to the account."""
    id = f"txn_failed_{refund.id.removeprefix('re_')}"
    return _movement(books, id, refund.amount, refund.failed_at or 0, "refund_failure", refund)


@renders("dispute")
def dispute(books: StripeBooks, dispute: stripe_books.StripeDispute) -> Json:
    rest = dispute.id.removeprefix("du_")
    moved = [_movement(books, f"txn_out_{rest}", -dispute.amount, dispute.created, "adjustment", dispute)]
    if (came := dispute.reinstated_at) is not None:
        moved.append(_movement(books, f"txn_in_{rest}", dispute.amount, came, "adjustment", dispute))
    return {"balance_transactions": moved}


@renders("balance_transaction")
def _movement(_: StripeBooks, id: str, amount: int, at: int, type: str, of: stripe_books.StripeRecord) -> Json:
    return {"id": id, "amount": amount, "created": at, "net": amount, "source": of.id, "type": type}


# A product can have any id, so it is looked for first.
_RENDERERS: dict[type[stripe_books.StripeRecord], Callable[[StripeBooks, Any], Json]] = {
    stripe_books.StripeProduct: catalog.product,
    stripe_books.StripePrice: catalog.price,
    stripe_books.StripeCustomer: catalog.customer,
    stripe_books.StripeSubscription: catalog.subscription,
    stripe_books.StripeInvoice: invoice,
    stripe_books.PaymentIntent: intent,
    stripe_books.SetupIntent: setup,
    stripe_books.StripeCharge: charge,
    stripe_books.StripeRefund: refund,
    stripe_books.StripeDispute: dispute,
    stripe_books.CheckoutSession: catalog.session,
}


def rendered(books: StripeBooks, record: stripe_books.StripeRecord) -> Json:
    return _RENDERERS[type(record)](books, record)


def record_of(books: StripeBooks, id: str) -> stripe_books.StripeRecord | None:
    shelves: Iterator[dict[str, stripe_books.StripeRecord]] = (
        getattr(books, stripe_books.SHELVES[kind]) for kind in _RENDERERS
    )
    return next((shelf[id] for shelf in shelves if id in shelf), None)
