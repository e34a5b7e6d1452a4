"""Invoices, payments, refunds and disputes at Stripe."""

from __future__ import annotations

from dataclasses import replace

from latchkey.domain.refusal import NotFound, Refusal
from latchkey.emulators.stripe.stripe_books import (
    DAY_S,
    InvoiceLine,
    PaymentIntent,
    Seconds,
    StripeBooks,
    StripeCharge,
    StripeDispute,
    StripeInvoice,
    StripeItem,
    StripeRefund,
    StripeStatus,
    StripeStep,
    StripeSubscription,
)
from latchkey.emulators.stripe.stripe_changeset import StripeChangeset


def line_of(w: StripeChangeset, item: StripeItem, *, free: bool = False) -> InvoiceLine:
    """The line for the item's running period."""
    price = w.price(item.price)
    name = w.life.products[price.product].name
    return InvoiceLine(
        id=w.id("il"),
        item=item.id,
        price=price.id,
        amount=0 if free else price.amount * item.quantity,
        starts=item.starts,
        ends=item.ends,
        description=f"Trial period for {name}" if free else f"{item.quantity} x {name}",
        quantity=item.quantity,
    )


def draft(w: StripeChangeset, of: StripeSubscription, reason: str, lines: tuple[InvoiceLine, ...]) -> StripeInvoice:
    """A new invoice with these lines and the prorations that wait. It becomes the subscription's latest. The caller
    tells of it, after what it tells of the subscription."""
    made = sum(one.subscription == of.id for one in w.life.invoices.values())
    invoice = StripeInvoice(
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


def finalize(w: StripeChangeset, invoice: StripeInvoice) -> StripeInvoice:
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
        intent = PaymentIntent(
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


def pay(w: StripeChangeset, invoice: StripeInvoice) -> StripeInvoice:
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


def fail(w: StripeChangeset, invoice: StripeInvoice, *, next_attempt: Seconds | None) -> StripeInvoice:
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


def void(w: StripeChangeset, invoice: StripeInvoice) -> StripeInvoice:
    invoice = w.put(invoice, status="void", voided_at=w.at, next_attempt=None, finalizes_at=None)
    if invoice.intent is not None:
        w.put(w.intent(invoice.intent), status="canceled")
    w.tell("invoice.voided", invoice, subject=invoice.subscription)
    return invoice


def write_off(w: StripeChangeset, invoice: StripeInvoice) -> StripeInvoice:
    invoice = w.put(invoice, status="uncollectible", uncollectible_at=w.at, next_attempt=None, finalizes_at=None)
    w.tell("invoice.marked_uncollectible", invoice, subject=invoice.subscription)
    return invoice


def charged(w: StripeChangeset, intent: PaymentIntent, *, subject: str | None) -> PaymentIntent:
    charge = _charge(w, intent, succeeded=True)
    intent = w.put(intent, status="succeeded", charge=charge.id, failed=False)
    w.tell("charge.succeeded", charge, subject=subject)
    w.tell("payment_intent.succeeded", intent, subject=subject)
    return intent


def invoices_of(w: StripeChangeset, subscription: str, *statuses: str) -> list[StripeInvoice]:
    """Oldest first."""
    return [one for one in w.life.invoices.values() if one.subscription == subscription and one.status in statuses]


def _charge(w: StripeChangeset, intent: PaymentIntent, *, succeeded: bool) -> StripeCharge:
    customer = w.life.customers.get(intent.customer or "")
    charge = StripeCharge(
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


def _tell_paid(w: StripeChangeset, invoice: StripeInvoice) -> None:
    w.tell("invoice.paid", invoice, subject=invoice.subscription)
    w.tell("invoice.payment_succeeded", invoice, subject=invoice.subscription)


def _open(w: StripeChangeset, subscription: StripeSubscription) -> bool:
    return bool(invoices_of(w, subscription.id, "open"))


def _runs(w: StripeChangeset, subscription: StripeSubscription) -> None:
    if subscription.status not in (StripeStatus.INCOMPLETE, StripeStatus.PAST_DUE, StripeStatus.UNPAID):
        return
    before = str(subscription.status)
    subscription = w.put(subscription, status=StripeStatus.ACTIVE, failing=False)
    w.tell("customer.subscription.updated", subscription, subject=subscription.id, status=before)


def charges_of(life: StripeBooks, purchase: str) -> list[StripeCharge]:
    """The payments of a purchase (a subscription, a checkout session or a payment intent) that came through, oldest
    first."""
    return [one for one in life.charges.values() if one.succeeded and subject_of(life, one) == purchase]


def subject_of(life: StripeBooks, charge: StripeCharge) -> str:
    """The purchase that a payment was for."""
    intent = life.intents[charge.intent]
    if intent.invoice is not None:
        return life.invoices[intent.invoice].subscription
    return intent.session or intent.id


def refund(
    life: StripeBooks,
    at: Seconds,
    charge_id: str,
    *,
    amount: int | None = None,
    reason: str | None = None,
    metadata: dict[str, str] | None = None,
) -> StripeStep:
    """All that is left of a payment, or a part of it."""
    w = StripeChangeset(life, at)
    charge = w.charge(charge_id)
    left = charge.amount - charge.refunded
    given = left if amount is None else amount
    if not charge.succeeded:
        raise Refusal(f"Charge {charge.id} has failed and can't be refunded.", param="charge")
    if left == 0:
        raise Refusal(f"Charge {charge.id} has already been refunded.", param="charge")
    if charge.disputed:
        raise Refusal(f"Charge {charge.id} has been charged back; cannot issue a refund.", param="charge")
    if not 0 < given <= left:
        raise Refusal(f"Refund amount ({given}) is greater than unrefunded amount on charge ({left})", param="amount")
    made = StripeRefund(
        id=w.id("re"),
        charge=charge.id,
        intent=charge.intent,
        amount=given,
        currency=charge.currency,
        created=at,
        reason=reason,
        metadata=metadata or {},
    )
    w.put(made)
    before = {"amount_refunded": charge.refunded, "refunded": False}
    charge = w.put(charge, refunded=charge.refunded + given)
    subject = subject_of(w.life, charge)
    w.tell("refund.created", made, subject=subject)
    w.tell("charge.refunded", charge, subject=subject, **before)
    return w.done()


def fail_refund(life: StripeBooks, at: Seconds, purchase: str) -> StripeStep:
    """The bank gives the latest refund back."""
    w = StripeChangeset(life, at)
    of = {one.id for one in charges_of(life, purchase)}
    made = [one for one in life.refunds.values() if one.charge in of and one.status == "succeeded"]
    if not made:
        raise Refusal("Nothing was refunded.", param="act")
    failed = w.put(made[-1], status="failed", failed_at=at)
    charge = w.charge(failed.charge)
    w.put(charge, refunded=charge.refunded - failed.amount)
    for type in ("refund.updated", "charge.refund.updated", "refund.failed"):
        w.tell(type, failed, subject=purchase, status="succeeded")
    return w.done()


def dispute(life: StripeBooks, at: Seconds, charge_id: str, *, reason: str = "fraudulent") -> StripeStep:
    """The customer's bank takes the money back; the dispute is open."""
    w = StripeChangeset(life, at)
    charge = w.charge(charge_id)
    if charge.disputed:
        raise Refusal(f"Charge {charge.id} is disputed already.", param="charge")
    if charge.refunded >= charge.amount:
        raise Refusal(f"Charge {charge.id} has already been refunded.", param="charge")
    made = StripeDispute(
        id=w.id("du"),
        charge=charge.id,
        intent=charge.intent,
        amount=charge.amount - charge.refunded,
        currency=charge.currency,
        created=at,
        reason=reason,
    )
    w.put(made)
    w.put(charge, disputed=True)
    subject = subject_of(w.life, charge)
    w.tell("charge.dispute.created", made, subject=subject)
    w.tell("charge.dispute.funds_withdrawn", made, subject=subject)
    return w.done()


def close_dispute(life: StripeBooks, at: Seconds, purchase: str, *, won: bool) -> StripeStep:
    """Won, the money comes back to the seller."""
    w = StripeChangeset(life, at)
    of = {one.id for one in charges_of(life, purchase)}
    found = [one for one in life.disputes.values() if one.charge in of and one.status == "needs_response"]
    if not found:
        raise Refusal("No dispute is open.", param="act")
    closed = replace(found[-1], status="won", reinstated_at=at) if won else replace(found[-1], status="lost")
    w.put(closed)
    w.tell("charge.dispute.closed", closed, subject=purchase, status="needs_response")
    if won:
        w.tell("charge.dispute.funds_reinstated", closed, subject=purchase)
    return w.done()


def charge_named(life: StripeBooks, purchase: str, name: str | None) -> str:
    """The latest payment of the purchase, or the one that is named by its charge, payment intent or invoice."""
    candidates = charges_of(life, purchase)
    if name is not None:
        candidates = [one for one in candidates if name in (one.id, one.intent, life.intents[one.intent].invoice)]
        if not candidates:
            raise NotFound(f"The purchase has no payment {name!r}.", param="payment")
    if not candidates:
        raise Refusal("Nothing was paid.", param="act")
    return candidates[-1].id
