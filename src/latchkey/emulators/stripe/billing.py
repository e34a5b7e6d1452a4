"""Invoices: drafted, finalized, paid, failed, voided. Each function works on one change of the books."""

from __future__ import annotations

from dataclasses import replace

from latchkey.emulators.stripe.state import (
    DAY_S,
    Charge,
    Intent,
    Invoice,
    Item,
    Line,
    Seconds,
    Status,
    Subscription,
)
from latchkey.emulators.stripe.working import Work


def line_of(w: Work, item: Item, *, free: bool = False) -> Line:
    """The line for the item's running period."""
    price = w.price(item.price)
    name = w.life.products[price.product].name
    return Line(
        id=w.id("il"),
        item=item.id,
        price=price.id,
        amount=0 if free else price.amount * item.quantity,
        starts=item.starts,
        ends=item.ends,
        description=f"Trial period for {name}" if free else f"{item.quantity} x {name}",
        quantity=item.quantity,
    )


def draft(w: Work, of: Subscription, reason: str, lines: tuple[Line, ...]) -> Invoice:
    """A new invoice with these lines and the prorations that wait. It becomes the subscription's latest. The caller
    tells of it, after what it tells of the subscription."""
    made = sum(one.subscription == of.id for one in w.life.invoices.values())
    invoice = Invoice(
        id=w.id("in"),
        number=f"{of.customer[-8:].upper()}-{made + 1:04}",
        customer=of.customer,
        subscription=of.id,
        currency=of.currency,
        reason=reason,
        created=w.at,
        starts=of.starts,
        ends=of.ends,
        lines=(*of.pending, *lines),
        sent=of.sends_invoices,
        metadata=of.metadata,
    )
    invoice = replace(invoice, amount_due=max(0, invoice.total))
    w.put(invoice)
    w.put(w.subscription(of.id), latest_invoice=invoice.id, pending=())
    return invoice


def finalize(w: Work, invoice: Invoice) -> Invoice:
    """Open, to be paid; paid at once if nothing is due. A credit of the customer is used first."""
    customer = w.customer(invoice.customer)
    used = min(max(invoice.total, 0), max(-customer.balance, 0))
    balance = customer.balance + used + min(invoice.total, 0)
    if balance != customer.balance:
        w.put(customer, balance=balance)
    due = max(invoice.total, 0) - used
    subscription = w.subscription(invoice.subscription)
    days = subscription.days_until_due
    invoice = w.put(
        invoice,
        status="open" if due else "paid",
        starting_balance=customer.balance,
        ending_balance=balance,
        amount_due=due,
        finalized_at=w.at,
        finalizes_at=None,
        paid_at=None if due else w.at,
        due_date=w.at + (days or 0) * DAY_S if invoice.sent else None,
    )
    if due:
        id = w.id("pi")
        intent = Intent(
            id=id,
            secret=w.secret(id),
            amount=due,
            currency=invoice.currency,
            customer=invoice.customer,
            created=w.at,
            invoice=invoice.id,
            setup_future_usage="off_session",
        )
        w.put(intent)
        invoice = w.put(invoice, intent=intent.id)
    w.tell("invoice.finalized", invoice, subject=invoice.subscription)
    if due:
        w.tell("payment_intent.created", w.intent(invoice.intent or ""), subject=invoice.subscription)
    else:
        _tell_paid(w, invoice)
    return invoice


def pay(w: Work, invoice: Invoice) -> Invoice:
    """An open invoice is paid; the subscription runs again if that was its problem."""
    assert invoice.intent is not None
    intent = w.intent(invoice.intent)
    charged(w, intent, subject=invoice.subscription)
    invoice = w.put(
        invoice,
        status="paid",
        amount_paid=invoice.amount_due,
        attempts=invoice.attempts + 1,
        next_attempt=None,
        paid_at=w.at,
    )
    _tell_paid(w, invoice)
    subscription = w.subscription(invoice.subscription)
    if subscription.latest_invoice == invoice.id or not _open(w, subscription):
        _runs(w, subscription)
    return w.invoice(invoice.id)


def fail(w: Work, invoice: Invoice, *, next_attempt: Seconds | None) -> Invoice:
    """A try to collect an open invoice fails."""
    assert invoice.intent is not None
    intent = w.intent(invoice.intent)
    charge = _charge(w, intent, succeeded=False)
    intent = w.put(intent, charge=charge.id, failed=True)
    w.tell("charge.failed", charge, subject=invoice.subscription)
    w.tell("payment_intent.payment_failed", intent, subject=invoice.subscription)
    invoice = w.put(invoice, attempts=invoice.attempts + 1, next_attempt=next_attempt)
    w.tell("invoice.payment_failed", invoice, subject=invoice.subscription)
    return invoice


def void(w: Work, invoice: Invoice) -> Invoice:
    invoice = w.put(invoice, status="void", voided_at=w.at, next_attempt=None, finalizes_at=None)
    if invoice.intent is not None:
        w.put(w.intent(invoice.intent), status="canceled")
    w.tell("invoice.voided", invoice, subject=invoice.subscription)
    return invoice


def write_off(w: Work, invoice: Invoice) -> Invoice:
    invoice = w.put(invoice, status="uncollectible", uncollectible_at=w.at, next_attempt=None, finalizes_at=None)
    w.tell("invoice.marked_uncollectible", invoice, subject=invoice.subscription)
    return invoice


def charged(w: Work, intent: Intent, *, subject: str | None) -> Intent:
    charge = _charge(w, intent, succeeded=True)
    intent = w.put(intent, status="succeeded", charge=charge.id, failed=False)
    w.tell("charge.succeeded", charge, subject=subject)
    w.tell("payment_intent.succeeded", intent, subject=subject)
    return intent


def invoices_of(w: Work, subscription: str, *statuses: str) -> list[Invoice]:
    """Oldest first."""
    return [one for one in w.life.invoices.values() if one.subscription == subscription and one.status in statuses]


def _charge(w: Work, intent: Intent, *, succeeded: bool) -> Charge:
    customer = w.life.customers.get(intent.customer or "")
    charge = Charge(
        id=w.id("ch"),
        amount=intent.amount,
        currency=intent.currency,
        customer=intent.customer,
        intent=intent.id,
        created=w.at,
        succeeded=succeeded,
        country=customer.country if customer else None,
        metadata=intent.metadata,
    )
    return w.put(charge)


def _tell_paid(w: Work, invoice: Invoice) -> None:
    w.tell("invoice.paid", invoice, subject=invoice.subscription)
    w.tell("invoice.payment_succeeded", invoice, subject=invoice.subscription)


def _open(w: Work, subscription: Subscription) -> bool:
    return bool(invoices_of(w, subscription.id, "open"))


def _runs(w: Work, subscription: Subscription) -> None:
    if subscription.status not in (Status.INCOMPLETE, Status.PAST_DUE, Status.UNPAID):
        return
    before = str(subscription.status)
    subscription = w.put(subscription, status=Status.ACTIVE, failing=False)
    w.tell("customer.subscription.updated", subscription, subject=subscription.id, status=before)
