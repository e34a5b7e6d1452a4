"""The books in Stripe's own fields, in the form of the API version below."""

from collections.abc import Callable, Iterator
from typing import Any

from latchkey.emulators.stripe import stripe_books
from latchkey.emulators.stripe import stripe_catalog_objects as catalog
from latchkey.emulators.stripe.stripe_catalog_objects import address, postal_address, stripe_object

API_VERSION = "2026-10-28.endive"


def invoice(books: stripe_books.StripeBooks, invoice: stripe_books.StripeInvoice) -> dict[str, Any]:
    customer = books.customers[invoice.customer]
    total = invoice.total
    remaining = max(0, invoice.amount_due - invoice.amount_paid)
    subscription_details = {
        "metadata": invoice.metadata,
        "subscription": invoice.subscription,
        "subscription_proration_date": None,
    }
    return stripe_object(
        "invoice",
        invoice,
        amount_remaining=remaining,
        attempted=invoice.attempt_count > 0,
        auto_advance=invoice.next_payment_attempt is not None or invoice.automatically_finalizes_at is not None,
        collection_method="send_invoice" if invoice.sent else "charge_automatically",
        customer_address=address(customer.country),
        customer_email=customer.email,
        customer_name=customer.name,
        effective_at=invoice.finalized_at,
        hosted_invoice_url=f"https://invoice.stripe.com/i/{invoice.id}" if invoice.finalized_at else None,
        lines={
            "object": "list",
            "data": [line(books, invoice, each) for each in invoice.lines],
            "has_more": False,
            "total_count": len(invoice.lines),
            "url": f"/v1/invoices/{invoice.id}/lines",
        },
        livemode=books.live,
        number=invoice.number if invoice.finalized_at else None,
        parent={"quote_details": None, "subscription_details": subscription_details, "type": "subscription_details"},
        status_transitions={
            "finalized_at": invoice.finalized_at,
            "marked_uncollectible_at": invoice.uncollectible_at,
            "paid_at": invoice.paid_at,
            "voided_at": invoice.voided_at,
        },
        subtotal=total,
        subtotal_excluding_tax=total,
        total=total,
        total_excluding_tax=total,
        webhooks_delivered_at=invoice.created,
    )


def line(
    books: stripe_books.StripeBooks, invoice: stripe_books.StripeInvoice, line: stripe_books.InvoiceLine
) -> dict[str, Any]:
    return stripe_object(
        "line_item",
        line,
        currency=invoice.currency,
        discountable=not line.proration,
        invoice=invoice.id,
        livemode=books.live,
        metadata=invoice.metadata,
        parent=_parent(invoice, line),
        period={"start": line.starts, "end": line.ends},
        pricing=_pricing(books, line),
        subscription=invoice.subscription,
        subtotal=line.amount,
    )


def _pricing(books: stripe_books.StripeBooks, line: stripe_books.InvoiceLine) -> dict[str, Any]:
    price = books.prices[line.price]
    return {
        "price_details": {"price": price.id, "product": price.product},
        "type": "price_details",
        "unit_amount_decimal": str(price.amount),
    }


def _parent(invoice: stripe_books.StripeInvoice, line: stripe_books.InvoiceLine) -> dict[str, Any]:
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


def invoice_item(
    books: stripe_books.StripeBooks, subscription: stripe_books.StripeSubscription, line: stripe_books.InvoiceLine
) -> dict[str, Any]:
    """A proration that waits for the next invoice."""
    return stripe_object(
        "invoiceitem",
        line,
        id=f"ii_{line.id.removeprefix('il_')}",
        currency=subscription.currency,
        customer=subscription.customer,
        date=line.starts,
        created=line.starts,
        livemode=books.live,
        parent={
            "subscription_details": {"subscription": subscription.id, "subscription_item": line.item},
            "type": "subscription_details",
        },
        period={"start": line.starts, "end": line.ends},
        pricing=_pricing(books, line),
    )


def invoice_payment(books: stripe_books.StripeBooks, invoice: stripe_books.StripeInvoice) -> dict[str, Any] | None:
    """Its only payment. An invoice that costs nothing has none."""
    if invoice.payment_intent is None:
        return None
    status = {"paid": "paid", "void": "canceled"}.get(invoice.status, "open")
    return stripe_object(
        "invoice_payment",
        invoice,
        id=f"inpay_{invoice.id.removeprefix('in_')}",
        amount_paid=invoice.amount_paid if status == "paid" else None,
        amount_requested=invoice.amount_due,
        created=invoice.finalized_at,
        invoice=invoice.id,
        livemode=books.live,
        payment={"payment_intent": invoice.payment_intent, "type": "payment_intent"},
        status=status,
        status_transitions={"canceled_at": invoice.voided_at, "paid_at": invoice.paid_at if status == "paid" else None},
    )


def intent(books: stripe_books.StripeBooks, intent: stripe_books.PaymentIntent) -> dict[str, Any]:
    failure = {
        "charge": intent.latest_charge,
        "code": "card_declined",
        "decline_code": "generic_decline",
        "message": "Your card was declined.",
        "type": "card_error",
    }
    paid = intent.status == "succeeded"
    return stripe_object(
        "payment_intent",
        intent,
        amount_received=intent.amount if paid else 0,
        last_payment_error=failure if intent.failed else None,
        livemode=books.live,
        payment_method=f"pm_{intent.id.removeprefix('pi_')}" if paid else None,
    )


def setup(books: stripe_books.StripeBooks, setup: stripe_books.SetupIntent) -> dict[str, Any]:
    return stripe_object(
        "setup_intent",
        setup,
        livemode=books.live,
        payment_method=f"pm_{setup.id.removeprefix('seti_')}" if setup.status == "succeeded" else None,
    )


def charge(books: stripe_books.StripeBooks, charge: stripe_books.StripeCharge) -> dict[str, Any]:
    customer = books.customers.get(charge.customer or "")
    failed = not charge.succeeded
    return stripe_object(
        "charge",
        charge,
        amount_captured=charge.amount if charge.succeeded else 0,
        balance_transaction=f"txn_{charge.id.removeprefix('ch_')}" if charge.succeeded else None,
        billing_details={
            "address": postal_address(charge.country),
            "email": customer.email if customer else None,
            "name": customer.name if customer else None,
            "phone": None,
            "tax_id": None,
        },
        captured=charge.succeeded,
        failure_code="card_declined" if failed else None,
        failure_message="Your card was declined." if failed else None,
        livemode=books.live,
        paid=charge.succeeded,
        payment_method=f"pm_{charge.payment_intent.removeprefix('pi_')}",
        payment_method_details={
            "card": {
                "brand": "visa",
                "country": charge.country,
                "funding": "credit",
                "last4": "0341" if failed else "4242",
            },
            "type": "card",
        },
        refunded=charge.succeeded and charge.amount_refunded >= charge.amount > 0,
        status="failed" if failed else "succeeded",
    )


def refund(books: stripe_books.StripeBooks, refund: stripe_books.StripeRefund) -> dict[str, Any]:
    failed = refund.status == "failed"
    return stripe_object(
        "refund",
        refund,
        balance_transaction=f"txn_{refund.id.removeprefix('re_')}",
        customer=books.charges[refund.charge].customer,
        failure_balance_transaction=f"txn_failed_{refund.id.removeprefix('re_')}" if failed else None,
        failure_reason="lost_or_stolen_card" if failed else None,
    )


def failure_movement(refund: stripe_books.StripeRefund) -> dict[str, Any]:
    """The money of a refund that failed comes back to the account."""
    return _movement(refund, f"txn_failed_{refund.id.removeprefix('re_')}", refund.amount, refund.failed_at or 0)


def dispute(books: stripe_books.StripeBooks, dispute: stripe_books.StripeDispute) -> dict[str, Any]:
    rest = dispute.id.removeprefix("du_")
    moved = [_movement(dispute, f"txn_out_{rest}", -dispute.amount, dispute.created)]
    if dispute.reinstated_at is not None:
        moved.append(_movement(dispute, f"txn_in_{rest}", dispute.amount, dispute.reinstated_at))
    return stripe_object("dispute", dispute, balance_transactions=moved, livemode=books.live)


def _movement(
    of: stripe_books.StripeRefund | stripe_books.StripeDispute, id: str, amount: int, at: int
) -> dict[str, Any]:
    kind = "refund_failure" if isinstance(of, stripe_books.StripeRefund) else "adjustment"
    return stripe_object(
        "balance_transaction", of, id=id, amount=amount, created=at, net=amount, source=of.id, type=kind
    )


# A product can have any id, so it is looked for first.
_RENDERERS: dict[type[stripe_books.StripeRecord], Callable[[stripe_books.StripeBooks, Any], dict[str, Any]]] = {
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


def rendered(books: stripe_books.StripeBooks, record: stripe_books.StripeRecord) -> dict[str, Any]:
    return _RENDERERS[type(record)](books, record)


def record_of(books: stripe_books.StripeBooks, id: str) -> stripe_books.StripeRecord | None:
    shelves: Iterator[dict[str, stripe_books.StripeRecord]] = (
        getattr(books, stripe_books.SHELVES[kind]) for kind in _RENDERERS
    )
    return next((shelf[id] for shelf in shelves if id in shelf), None)
