"""What the Stripe emulator knows of its purchases, in neutral words: see `ExpectedState`."""

from collections.abc import Iterator

from latchkey.domain.instants import SECOND
from latchkey.emulators.emulator import ExpectedState
from latchkey.emulators.stripe.stripe_books import (
    DAY_S,
    OVER,
    CheckoutSession,
    InvoiceLine,
    Seconds,
    StripeBooks,
    StripeCharge,
    StripeInvoice,
    StripeStatus,
    StripeSubscription,
)

_RUNNING = (StripeStatus.TRIALING, StripeStatus.ACTIVE, StripeStatus.PAST_DUE)
_IN_DEBT = (StripeStatus.PAST_DUE, StripeStatus.UNPAID, StripeStatus.CANCELED)
_NOT_RENEWED = (*OVER, StripeStatus.UNPAID, StripeStatus.INCOMPLETE)


def expected_of_subscription(books: StripeBooks, subscription: StripeSubscription, now: Seconds) -> ExpectedState:
    """A subscription gives access for the time that is paid for, or free."""
    paid = _paid(books, subscription)
    latest = paid[-1] if paid else None
    # A trial that is made longer has no invoice for the days that were added.
    ends = max(latest[1].ends if latest else subscription.starts, subscription.trial_end or 0)
    taken_at = _taken_back_at(books, paid)
    access = ends
    if subscription.ended_at is not None:
        access = min(access, subscription.ended_at)
    debt = _debt(books, subscription, paid) if subscription.status in _IN_DEBT else None
    gave_up_at = None
    if debt is not None:
        if subscription.status is StripeStatus.CANCELED and debt[0].attempt_count > len(subscription.retry_days):
            # It was unpaid before it was cancelled.
            gave_up_at = max(access, _last_try(books, debt[0]))
        access = max(access, _kept_until(books, subscription, debt))
    if subscription.status is StripeStatus.ACTIVE and latest is not None:
        access = max(access, _charged_by(books, subscription, latest[1].ends))
    if taken_at is not None:
        access = min(access, taken_at)
    # An unpaid change is not bought yet.
    price = books.prices[latest[1].price if latest and subscription.status in _IN_DEBT else subscription.items[0].price]
    following = books.prices[subscription.next_price].name if subscription.next_price else None
    customer = books.customers[subscription.customer]
    ended = subscription.status in _NOT_RENEWED
    resumes_at = subscription.pause.resumes_at if subscription.pause else None
    return ExpectedState(
        purchase=subscription.id,
        id=subscription.id,
        buyer=customer.name or customer.id,
        account_token=next(iter(subscription.metadata.values()), None),
        kind="subscription",
        product_id=price.name,
        periods=len(paid),
        active=subscription.status in _RUNNING and access > now,
        ends_at=ends * SECOND,
        access_ends_at=access * SECOND,
        access_had_ended_at=gave_up_at * SECOND if gave_up_at is not None else None,
        auto_renew=not ended and not subscription.cancel_at_period_end and subscription.cancel_at is None,
        in_trial=subscription.status is StripeStatus.TRIALING,
        billing_problem=subscription.status is StripeStatus.PAST_DUE,
        refunded_at=taken_at * SECOND if taken_at is not None else None,
        next_product_id=following,
        resumes_at=resumes_at * SECOND if resumes_at else None,
        sandbox=not books.live,
    )


Debt = tuple[StripeInvoice, InvoiceLine]


def _debt(
    books: StripeBooks, subscription: StripeSubscription, paid: list[tuple[StripeInvoice, InvoiceLine]]
) -> Debt | None:
    """The first period that is not paid, of a customer who has paid before."""
    if not any(line.amount > 0 for _, line in _lines(books, subscription, "paid")):
        return None
    last, item = paid[-1][1].starts if paid else 0, subscription.items[0].id
    unpaid = [
        (invoice, line)
        for invoice, line in _lines(books, subscription, "open", "uncollectible")
        if line.item == item and line.amount > 0 and line.starts > last
    ]
    return min(unpaid, key=lambda each: each[1].starts) if unpaid else None


def _kept_until(books: StripeBooks, subscription: StripeSubscription, debt: Debt) -> Seconds:
    """While Stripe tries to collect, a customer who has paid before keeps access: to the end of the period that is not
    paid, but at least 14 and at most 60 days of it. When Stripe gives up, to its last try."""
    line = debt[1]
    until = max(line.starts + 14 * DAY_S, min(line.ends, line.starts + 60 * DAY_S))
    if subscription.status is StripeStatus.UNPAID or subscription.cancel_reason == "payment_failed":
        return min(until, _last_try(books, debt[0]))
    return until if subscription.ended_at is None else min(until, subscription.ended_at)


def _last_try(books: StripeBooks, invoice: StripeInvoice) -> Seconds:
    tries = [each.created for each in books.charges.values() if each.payment_intent == invoice.payment_intent]
    return max([*tries, invoice.finalized_at or invoice.created])


def _charged_by(books: StripeBooks, subscription: StripeSubscription, ends: Seconds) -> Seconds:
    """A period has begun, and Stripe has not charged for it yet, or waits for the payment of an invoice that was sent:
    access stays until a day after that is due."""
    if subscription.pause is not None:
        return 0
    invoice = books.invoices.get(subscription.latest_invoice or "")
    if invoice is None or invoice.status not in ("draft", "open"):
        return 0
    due = invoice.due_date or invoice.automatically_finalizes_at or invoice.finalized_at
    follows = any(line.item == subscription.items[0].id and line.starts == ends for line in invoice.lines)
    return due + DAY_S if due is not None and follows else 0


def expected_of_session(books: StripeBooks, session: CheckoutSession) -> list[ExpectedState]:
    """What was bought once; each line is a purchase by itself."""
    if session.mode != "payment" or session.payment_intent is None:
        return []
    intent = books.intents[session.payment_intent]
    customer = books.customers.get(session.customer or "")
    account = session.client_reference_id or next(iter((session.metadata or session.made_metadata).values()), None)
    taken_at = _charge_taken_at(books, intent.latest_charge)
    several = len(session.items) > 1
    return [
        ExpectedState(
            purchase=session.id,
            id=f"{intent.id}#{item.id}" if several else intent.id,
            buyer=(customer.name if customer else None) or "somebody",
            account_token=account,
            kind="one_time",
            product_id=books.prices[item.price].name,
            periods=1,
            active=intent.status == "succeeded" and taken_at is None,
            ends_at=None,
            access_ends_at=None if taken_at is None else taken_at * SECOND,
            refunded_at=None if taken_at is None else taken_at * SECOND,
            sandbox=not books.live,
        )
        for item in session.items
    ]


def _charge_taken_at(books: StripeBooks, charge_id: str | None) -> Seconds | None:
    """When all of a payment was given back, or the bank took it."""
    charge = books.charges.get(charge_id or "")
    if charge is None or not charge.succeeded:
        return None
    disputes = [each for each in books.disputes.values() if each.charge == charge.id and each.status != "won"]
    if disputes:
        return disputes[-1].created
    if charge.amount_refunded < charge.amount:
        return None
    refunds = [each for each in books.refunds.values() if each.charge == charge.id and each.status == "succeeded"]
    return refunds[-1].created


def _taken_back_at(books: StripeBooks, paid: list[tuple[StripeInvoice, InvoiceLine]]) -> Seconds | None:
    """When the money for the running time went back. Free time that was given to a paid subscription belongs to the
    payment before it, unless that was back by then."""
    given: list[Seconds] = []
    for invoice, line in reversed(paid):
        if line.amount or invoice.billing_reason != "subscription_update":
            intent = books.intents.get(invoice.payment_intent or "")
            charge = books.charges.get((intent.latest_charge if intent is not None else None) or "")
            if charge is None or any(_was_back(books, charge, at) for at in given):
                return None
            return _charge_taken_at(books, charge.id)
        given.append(line.starts)
    return None


def _was_back(books: StripeBooks, charge: StripeCharge, at: Seconds) -> bool:
    refunds = [one for one in books.refunds.values() if one.charge == charge.id]
    disputes = [one for one in books.disputes.values() if one.charge == charge.id]
    moves = [(one.amount, one.created, one.failed_at) for one in refunds]
    moves += [(one.amount, one.created, one.reinstated_at) for one in disputes]
    gone = sum(amount for amount, since, until in moves if since < at and (until is None or at <= until))
    return gone >= charge.amount


def _paid(books: StripeBooks, subscription: StripeSubscription) -> list[tuple[StripeInvoice, InvoiceLine]]:
    """The lines of paid invoices that gave the first item time, oldest first."""
    item = subscription.items[0].id
    found = [both for both in _lines(books, subscription, "paid") if both[1].item == item and both[1].amount >= 0]
    return sorted(found, key=lambda both: (both[1].starts, both[1].ends))


def _lines(
    books: StripeBooks, subscription: StripeSubscription, *statuses: str
) -> Iterator[tuple[StripeInvoice, InvoiceLine]]:
    for invoice in books.invoices.values():
        if invoice.subscription == subscription.id and invoice.status in statuses:
            yield from ((invoice, line) for line in invoice.lines)
