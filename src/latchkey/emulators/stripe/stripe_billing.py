"""Invoices, payments, refunds and disputes at Stripe."""

from fractions import Fraction
from typing import Any, Literal

from msgspec.structs import replace

from latchkey.domain.refusal import NotFound, Refusal
from latchkey.emulators.control_requests import refuse_if
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
    StripePrice,
    StripeRefund,
    StripeStatus,
    StripeSubscription,
    smallest_units,
    subject_of,
)
from latchkey.emulators.stripe.stripe_changeset import StripeChangeset


def line_of(changes: StripeChangeset, item: StripeItem, *, free: bool = False) -> InvoiceLine:
    """The line for the item's running period."""
    price = changes.price(item.price)
    name = changes.books.products[price.product].name
    return InvoiceLine(
        id=changes.id("il"),
        item=item.id,
        price=price.id,
        amount=0 if free else price.amount * item.quantity,
        starts=item.starts,
        ends=item.ends,
        description=f"Trial period for {name}" if free else f"{item.quantity} x {name}",
        quantity=item.quantity,
    )


def prorated(
    changes: StripeChangeset, old: StripeItem, new: StripeItem, before: StripePrice, price: StripePrice, *, anew: bool
) -> tuple[InvoiceLine, ...]:
    """A credit for the time that is left of the old price, and without a new period a debit for the new one."""
    left = Fraction(old.ends - changes.at, old.ends - old.starts)
    names = {sold.id: changes.books.products[sold.product].name for sold in (before, price)}
    credit = InvoiceLine(
        id=changes.id("il"),
        item=old.id,
        price=before.id,
        amount=-round(before.amount * old.quantity * left),
        starts=changes.at,
        ends=old.ends,
        description=f"Unused time on {names[before.id]}",
        quantity=old.quantity,
        proration=True,
    )
    if anew:
        return (credit,)
    debit = replace(
        credit,
        id=changes.id("il"),
        price=price.id,
        amount=round(price.amount * new.quantity * left),
        description=f"Remaining time on {names[price.id]}",
        quantity=new.quantity,
    )
    return (credit, debit)


def _draft(
    changes: StripeChangeset, of: StripeSubscription, reason: str, lines: tuple[InvoiceLine, ...]
) -> StripeInvoice:
    """A new invoice with these lines and the prorations that wait. It becomes the subscription's latest."""
    made = sum(invoice.subscription == of.id for invoice in changes.books.invoices.values())
    invoice = changes.new(
        StripeInvoice,
        "in",
        number=f"{of.customer[-8:].upper()}-{made + 1:04}",
        customer=of.customer,
        subscription=of.id,
        currency=of.currency,
        billing_reason=reason,
        period_start=of.starts,
        period_end=of.ends,
        lines=(*of.pending, *lines),
        sent=of.sends_invoices,
        metadata=of.metadata,
    )
    invoice = changes.put(invoice, amount_due=max(0, invoice.total))
    changes.put(changes.subscription(of.id), latest_invoice=invoice.id, pending=())
    return invoice


def invoiced(
    changes: StripeChangeset,
    of: StripeSubscription,
    reason: str,
    lines: tuple[InvoiceLine, ...],
    previous: dict[str, Any] | None = None,
    *,
    events: tuple[str, ...] = ("updated",),
) -> StripeInvoice:
    """A draft, after the events about the subscription that it follows from. `previous` are its values before."""
    invoice = _draft(changes, of, reason, lines)
    for event in events:
        changed = previous if event == "updated" else None
        changes.emit(f"customer.subscription.{event}", changes.subscription(of.id), **(changed or {}))
    changes.emit("invoice.created", invoice)
    return invoice


def finalize(changes: StripeChangeset, invoice: StripeInvoice) -> StripeInvoice:
    """Open, to be paid; paid at once if nothing is due. A credit of the customer is used first."""
    customer = changes.customer(invoice.customer)
    used = min(max(invoice.total, 0), max(-customer.balance, 0))
    balance = customer.balance + used + min(invoice.total, 0)
    if balance != customer.balance:
        changes.put(customer, balance=balance)
    due = max(invoice.total, 0) - used
    subscription = changes.subscription(invoice.subscription)
    days = subscription.days_until_due
    invoice = changes.put(
        invoice,
        status="open" if due else "paid",
        starting_balance=customer.balance,
        ending_balance=balance,
        amount_due=due,
        finalized_at=changes.at,
        automatically_finalizes_at=None,
        paid_at=None if due else changes.at,
        due_date=changes.at + (days or 0) * DAY_S if invoice.sent else None,
    )
    if due:
        intent = new_intent(
            changes, due, invoice.currency, invoice.customer, invoice=invoice.id, setup_future_usage="off_session"
        )
        invoice = changes.put(invoice, payment_intent=intent.id)
    changes.emit("invoice.finalized", invoice)
    if due:
        changes.emit("payment_intent.created", changes.intent(invoice.payment_intent or ""))
    else:
        _emit_paid(changes, invoice)
    return invoice


def new_intent(
    changes: StripeChangeset, amount: int, currency: str, customer: str | None, **fields: Any
) -> PaymentIntent:
    return changes.new(PaymentIntent, "pi", amount=amount, currency=currency, customer=customer, **fields)


def pay(changes: StripeChangeset, invoice: StripeInvoice) -> None:
    """An open invoice is paid; the subscription runs again if that was its problem."""
    assert invoice.payment_intent is not None
    intent = changes.intent(invoice.payment_intent)
    charged(changes, intent)
    invoice = changes.put(
        invoice,
        status="paid",
        amount_paid=invoice.amount_due,
        attempt_count=invoice.attempt_count + 1,
        next_payment_attempt=None,
        paid_at=changes.at,
    )
    _emit_paid(changes, invoice)
    subscription = changes.subscription(invoice.subscription)
    if subscription.latest_invoice == invoice.id or not invoices_of(changes, subscription.id, "open"):
        _runs(changes, subscription)


def fail(changes: StripeChangeset, invoice: StripeInvoice, next_attempt: Seconds | None = None) -> None:
    assert invoice.payment_intent is not None
    intent = changes.intent(invoice.payment_intent)
    charge = _charge(changes, intent, succeeded=False)
    intent = changes.put(intent, latest_charge=charge.id, failed=True)
    changes.emit("charge.failed", charge)
    changes.emit("payment_intent.payment_failed", intent)
    invoice = changes.put(invoice, attempt_count=invoice.attempt_count + 1, next_payment_attempt=next_attempt)
    changes.emit("invoice.payment_failed", invoice)


def close(changes: StripeChangeset, invoice: StripeInvoice, *, void: bool = True) -> None:
    """It is not collected any more: void, or written off."""
    status = {"status": "void", "voided_at": changes.at}
    if not void:
        status = {"status": "uncollectible", "uncollectible_at": changes.at}
    invoice = changes.put(invoice, next_payment_attempt=None, automatically_finalizes_at=None, **status)
    if invoice.payment_intent is not None:
        changes.put(changes.intent(invoice.payment_intent), status="canceled")
    changes.emit("invoice.voided" if void else "invoice.marked_uncollectible", invoice)


def charged(changes: StripeChangeset, intent: PaymentIntent) -> None:
    charge = _charge(changes, intent, succeeded=True)
    intent = changes.put(intent, status="succeeded", latest_charge=charge.id, failed=False)
    changes.emit("charge.succeeded", charge)
    changes.emit("payment_intent.succeeded", intent)


def invoices_of(changes: StripeChangeset, subscription: str, *statuses: str) -> list[StripeInvoice]:
    """Oldest first."""
    every = changes.books.invoices.values()
    return [invoice for invoice in every if invoice.subscription == subscription and invoice.status in statuses]


def _charge(changes: StripeChangeset, intent: PaymentIntent, *, succeeded: bool) -> StripeCharge:
    customer = changes.books.customers.get(intent.customer or "")
    return changes.new(
        StripeCharge,
        "ch",
        amount=intent.amount,
        currency=intent.currency,
        customer=intent.customer,
        payment_intent=intent.id,
        succeeded=succeeded,
        country=customer.country if customer else None,
        metadata=intent.metadata,
    )


def _emit_paid(changes: StripeChangeset, invoice: StripeInvoice) -> None:
    changes.emit("invoice.paid", invoice)
    changes.emit("invoice.payment_succeeded", invoice)


def _runs(changes: StripeChangeset, subscription: StripeSubscription) -> None:
    if subscription.status not in (StripeStatus.INCOMPLETE, StripeStatus.PAST_DUE, StripeStatus.UNPAID):
        return
    changes.update(subscription, {"status": str(subscription.status)}, status=StripeStatus.ACTIVE, failing=False)


def charges_of(books: StripeBooks, purchase: str) -> list[StripeCharge]:
    """The payments of a purchase (a subscription, a checkout session or a payment intent) that came through, oldest
    first."""
    return [charge for charge in books.charges.values() if charge.succeeded and subject_of(books, charge) == purchase]


def give_back(
    changes: StripeChangeset,
    charge_id: str,
    *,
    amount: int | None = None,
    reason: str | None = None,
    metadata: dict[str, str] | None = None,
) -> StripeRefund:
    """All that is left of a payment, or a part of it."""
    charge = changes.charge(charge_id)
    left = charge.amount - charge.amount_refunded
    given = left if amount is None else amount
    refuse_if(not charge.succeeded, f"Charge {charge.id} has failed and can't be refunded.", "charge")
    refuse_if(left == 0, f"Charge {charge.id} has already been refunded.", "charge")
    refuse_if(charge.disputed, f"Charge {charge.id} has been charged back; cannot issue a refund.", "charge")
    if not 0 < given <= left:
        raise Refusal(f"Refund amount ({given}) is greater than unrefunded amount on charge ({left})", param="amount")
    made = changes.new(
        StripeRefund,
        "re",
        charge=charge.id,
        payment_intent=charge.payment_intent,
        amount=given,
        currency=charge.currency,
        reason=reason,
        metadata=metadata or {},
    )
    before = {"amount_refunded": charge.amount_refunded, "refunded": False}
    charge = changes.put(charge, amount_refunded=charge.amount_refunded + given)
    changes.emit("refund.created", made)
    changes.emit("charge.refunded", charge, **before)
    return made


def charge_named(books: StripeBooks, purchase: str, name: str | None) -> StripeCharge:
    """The latest payment of the purchase, or the one that is named by its charge, payment intent or invoice."""
    charges = charges_of(books, purchase)
    if name is not None:
        invoices = {intent.id: intent.invoice for intent in books.intents.values()}
        charges = [one for one in charges if name in (one.id, one.payment_intent, invoices[one.payment_intent])]
        if not charges:
            raise NotFound(f"The purchase has no payment {name!r}.", param="payment")
    refuse_if(not charges, "Nothing was paid.")
    return charges[-1]


def refund(
    changes: StripeChangeset,
    id: str,
    *,
    amount: float | None = None,
    payment: str | None = None,
    reason: Literal["duplicate", "fraudulent", "requested_by_customer"] | None = "requested_by_customer",
) -> None:
    """The amount as people write it, 4.99; without it, all that is left. The payment is a charge, payment intent or
    invoice; without it, the latest."""
    charge = charge_named(changes.books, id, payment)
    units = None if amount is None else smallest_units(amount, charge.currency)
    give_back(changes, charge.id, amount=units, reason=reason)


def fail_refund(changes: StripeChangeset, id: str) -> None:
    """The bank gives the latest refund back."""
    charges = {charge.id for charge in charges_of(changes.books, id)}
    refunds = changes.books.refunds.values()
    made = [refund for refund in refunds if refund.charge in charges and refund.status == "succeeded"]
    refuse_if(not made, "Nothing was refunded.")
    failed = changes.put(made[-1], status="failed", failed_at=changes.at)
    charge = changes.charge(failed.charge)
    changes.put(charge, amount_refunded=charge.amount_refunded - failed.amount)
    for type in ("refund.updated", "charge.refund.updated", "refund.failed"):
        changes.emit(type, failed, status="succeeded")


def dispute(changes: StripeChangeset, id: str, *, payment: str | None = None, reason: str = "fraudulent") -> None:
    """The customer's bank takes the money back; the dispute is open."""
    charge = charge_named(changes.books, id, payment)
    refuse_if(charge.disputed, f"Charge {charge.id} is disputed already.", "charge")
    refuse_if(charge.amount_refunded >= charge.amount, f"Charge {charge.id} has already been refunded.", "charge")
    made = changes.new(
        StripeDispute,
        "du",
        charge=charge.id,
        payment_intent=charge.payment_intent,
        amount=charge.amount - charge.amount_refunded,
        currency=charge.currency,
        reason=reason,
    )
    changes.put(charge, disputed=True)
    changes.emit("charge.dispute.created", made)
    changes.emit("charge.dispute.funds_withdrawn", made)


def lose_dispute(changes: StripeChangeset, id: str) -> None:
    _close_dispute(changes, id, won=False)


def win_dispute(changes: StripeChangeset, id: str) -> None:
    """The money comes back to the seller."""
    _close_dispute(changes, id, won=True)


def _close_dispute(changes: StripeChangeset, id: str, *, won: bool) -> None:
    charges = {charge.id for charge in charges_of(changes.books, id)}
    disputes = changes.books.disputes.values()
    found = [dispute for dispute in disputes if dispute.charge in charges and dispute.status == "needs_response"]
    refuse_if(not found, "No dispute is open.")
    closed = replace(found[-1], status="won", reinstated_at=changes.at) if won else replace(found[-1], status="lost")
    changes.put(closed)
    changes.emit("charge.dispute.closed", closed, status="needs_response")
    if won:
        changes.emit("charge.dispute.funds_reinstated", closed)
