"""What time brings at Stripe: renewals, tries to collect a payment, ends of trials and pauses, and ends."""

from collections.abc import Iterator

from msgspec import to_builtins
from msgspec.structs import replace

from latchkey.emulators.stripe import stripe_billing, stripe_books, stripe_purchases
from latchkey.emulators.stripe.stripe_changeset import StripeChangeset

# The first payment has to come within this time.
FIRST_PAYMENT_WITHIN: stripe_books.Seconds = 23 * stripe_books.HOUR_S
# The notice comes so long before the trial ends.
TRIAL_NOTICE: stripe_books.Seconds = 3 * stripe_books.DAY_S


def happen(books: stripe_books.StripeBooks, event: tuple[stripe_books.Seconds, str, str]) -> stripe_books.StripeStep:
    at, what, id = event
    changes = StripeChangeset(books, at)
    _HAPPENS[what](changes, id)
    return changes.step()


def due_events(books: stripe_books.StripeBooks) -> Iterator[tuple[stripe_books.Seconds, str, str]]:
    """When, what and to which object. Of what happens at the same moment, the names decide what comes first."""
    for subscription in books.subscriptions.values():
        yield from _due_of(subscription)
    for invoice in books.invoices.values():
        if invoice.status == "draft" and invoice.automatically_finalizes_at is not None:
            yield invoice.automatically_finalizes_at, "2 finalize", invoice.id
        if invoice.status == "open" and invoice.next_payment_attempt is not None:
            yield invoice.next_payment_attempt, "3 collect", invoice.id
        if invoice.status == "open" and invoice.sent and invoice.due_date is not None:
            subscription = books.subscriptions[invoice.subscription]
            if subscription.status is stripe_books.StripeStatus.ACTIVE:
                yield invoice.due_date, "3 overdue", invoice.id
            elif subscription.status is stripe_books.StripeStatus.PAST_DUE and subscription.after_failure != "past_due":
                yield invoice.due_date + sum(subscription.retry_days) * stripe_books.DAY_S, "4 give up", invoice.id
    for session in books.sessions.values():
        if session.status == "open":
            yield session.expires_at, "9 session", session.id


def _due_of(subscription: stripe_books.StripeSubscription) -> Iterator[tuple[stripe_books.Seconds, str, str]]:
    if subscription.status in stripe_books.OVER or subscription.status is stripe_books.StripeStatus.PAUSED:
        return
    if subscription.status is stripe_books.StripeStatus.INCOMPLETE:
        yield subscription.created + FIRST_PAYMENT_WITHIN, "1 never paid", subscription.id
        return
    if (
        subscription.status is stripe_books.StripeStatus.TRIALING
        and subscription.trial_end is not None
        and not subscription.trial_warned
    ):
        yield max(subscription.trial_end - TRIAL_NOTICE, subscription.created), "0 trial will end", subscription.id
    if subscription.pause is not None and subscription.pause.resumes_at is not None:
        yield subscription.pause.resumes_at, "0 resume", subscription.id
    if subscription.cancel_at is not None:
        yield subscription.cancel_at, "0 cancel", subscription.id
    yield subscription.ends, "1 cycle", subscription.id


def end(changes: StripeChangeset, subscription: stripe_books.StripeSubscription, reason: str | None) -> None:
    """Over at once. What is open is not collected any more."""
    for invoice in stripe_billing.invoices_of(changes, subscription.id, "open", "draft"):
        changes.put(invoice, next_payment_attempt=None, automatically_finalizes_at=None, due_date=None)
    subscription = changes.put(
        changes.subscription(subscription.id),
        status=stripe_books.StripeStatus.CANCELED,
        canceled_at=subscription.canceled_at or changes.at,
        ended_at=changes.at,
        cancel_at_period_end=False,
        cancel_at=None,
        cancel_reason=reason,
        schedule=None,
        next_price=None,
    )
    changes.emit("customer.subscription.deleted", subscription)


def collect(changes: StripeChangeset, id: str) -> None:
    """One try. After the last failed one, what the account's settings say."""
    invoice = changes.invoice(id)
    subscription = changes.subscription(invoice.subscription)
    if not subscription.failing:
        stripe_billing.pay(changes, invoice)
        return
    waits = subscription.retry_days
    again = invoice.attempt_count < len(waits)
    stripe_billing.fail(
        changes, invoice, changes.at + waits[invoice.attempt_count] * stripe_books.DAY_S if again else None
    )
    _past_due(changes, subscription.id)
    if not again:
        give_up(changes, subscription.id)


def give_up(changes: StripeChangeset, id: str) -> None:
    subscription = changes.subscription(id)
    if subscription.after_failure == "cancel":
        end(changes, subscription, "payment_failed")
    elif subscription.after_failure == "unpaid":
        changes.update(subscription, {"status": str(subscription.status)}, status=stripe_books.StripeStatus.UNPAID)


def resume(changes: StripeChangeset, id: str) -> None:
    subscription = changes.subscription(id)
    changes.update(subscription, {"pause_collection": to_builtins(subscription.pause)}, pause=None)


def _cycle(changes: StripeChangeset, id: str) -> None:
    """A period ends, and the next one begins with an invoice."""
    subscription = changes.subscription(id)
    if subscription.cancel_at_period_end:
        _cancel(changes, id)
        return
    after_trial = subscription.status is stripe_books.StripeStatus.TRIALING
    if after_trial and subscription.no_card == "cancel":
        end(changes, subscription, "cancellation_requested")
        return
    if after_trial and subscription.no_card == "pause":
        paused = changes.update(subscription, {"status": "trialing"}, status=stripe_books.StripeStatus.PAUSED)
        changes.emit("customer.subscription.paused", paused)
        return
    period = {"current_period_end": subscription.ends, "current_period_start": subscription.starts}
    before = {"items": {"data": [period]}}
    anchor = subscription.ends if after_trial else subscription.anchor
    price = changes.price(subscription.next_price or subscription.items[0].price)
    ends = stripe_books.next_period(price, subscription.ends, anchor)
    items = tuple(replace(item, starts=item.ends, ends=ends) for item in subscription.items)
    if subscription.next_price is not None:
        items = (replace(items[0], price=subscription.next_price), *items[1:])
    status = stripe_books.StripeStatus.ACTIVE if after_trial else subscription.status
    subscription = changes.put(subscription, items=items, anchor=anchor, status=status, next_price=None, schedule=None)
    lines = tuple(stripe_billing.line_of(changes, item) for item in items)
    changed = {**before, **({"status": "trialing"} if after_trial else {})}
    invoice = stripe_billing.invoiced(changes, subscription, "subscription_cycle", lines, changed)
    if subscription.status is stripe_books.StripeStatus.UNPAID:
        return
    if subscription.pause is not None:
        if subscription.pause.behavior != "keep_as_draft":
            invoice = changes.put(invoice, finalized_at=changes.at)
            stripe_billing.close(changes, invoice, void=subscription.pause.behavior == "void")
    elif subscription.draft_for:
        changes.put(invoice, automatically_finalizes_at=changes.at + subscription.draft_for)
    else:
        finalize(changes, invoice.id)


def finalize(changes: StripeChangeset, id: str) -> None:
    invoice = stripe_billing.finalize(changes, changes.invoice(id))
    if invoice.status == "open" and not invoice.sent:
        collect(changes, id)


def _past_due(changes: StripeChangeset, id: str) -> None:
    subscription = changes.subscription(id)
    if subscription.status is stripe_books.StripeStatus.ACTIVE:
        changes.update(subscription, {"status": "active"}, status=stripe_books.StripeStatus.PAST_DUE)


def _overdue(changes: StripeChangeset, id: str) -> None:
    invoice = changes.invoice(id)
    changes.emit("invoice.overdue", invoice)
    _past_due(changes, invoice.subscription)


def _never_paid(changes: StripeChangeset, id: str) -> None:
    for invoice in stripe_billing.invoices_of(changes, id, "open"):
        stripe_billing.close(changes, invoice)
    over = {"status": stripe_books.StripeStatus.INCOMPLETE_EXPIRED, "ended_at": changes.at}
    changes.update(changes.subscription(id), {"status": "incomplete"}, **over)


def _warn(changes: StripeChangeset, id: str) -> None:
    subscription = changes.put(changes.subscription(id), trial_warned=True)
    changes.emit("customer.subscription.trial_will_end", subscription)


def _cancel(changes: StripeChangeset, id: str) -> None:
    subscription = changes.subscription(id)
    end(changes, subscription, subscription.cancel_reason or "cancellation_requested")


def _give_up(changes: StripeChangeset, id: str) -> None:
    invoice = changes.invoice(id)
    changes.put(invoice, due_date=None)
    give_up(changes, invoice.subscription)


_HAPPENS = {
    "0 trial will end": _warn,
    "0 resume": resume,
    "0 cancel": _cancel,
    "1 never paid": _never_paid,
    "1 cycle": _cycle,
    "2 finalize": finalize,
    "3 collect": collect,
    "3 overdue": _overdue,
    "4 give up": _give_up,
    "9 session": stripe_purchases.expire_session,
}
