"""What time brings at Stripe: renewals, tries to collect a payment, ends of trials and pauses, and ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from latchkey.emulators.stripe import stripe_billing, stripe_purchases
from latchkey.emulators.stripe.stripe_books import (
    DAY_S,
    HOUR_S,
    OVER,
    Seconds,
    StripeBooks,
    StripeEvent,
    StripeInvoice,
    StripeStatus,
    StripeStep,
    StripeSubscription,
    next_period,
)
from latchkey.emulators.stripe.stripe_changeset import StripeChangeset

# The first payment has to come within this time.
FIRST_PAYMENT_WITHIN: Seconds = 23 * HOUR_S
# The notice comes so long before the trial ends.
TRIAL_NOTICE: Seconds = 3 * DAY_S


def due_at(life: StripeBooks) -> Seconds | None:
    """When time will next change something."""
    return min((at for at, _, _ in _due(life)), default=None)


def advance(life: StripeBooks, until: Seconds) -> StripeStep:
    """Everything that happens up to and with `until`, each at its own time, oldest first."""
    told: list[StripeEvent] = []
    while due := [one for one in _due(life) if one[0] <= until]:
        at, what, id = min(due)
        work = StripeChangeset(life, at)
        _HAPPENS[what](work, id)
        life, events = work.done()
        told.extend(events)
    return life, tuple(told)


def _due(life: StripeBooks) -> Iterator[tuple[Seconds, str, str]]:
    """When, what and to which object. Of what happens at the same moment, the names decide what comes first."""
    for one in life.subscriptions.values():
        yield from _due_of(one)
    for invoice in life.invoices.values():
        if invoice.status == "draft" and invoice.finalizes_at is not None:
            yield invoice.finalizes_at, "2 finalize", invoice.id
        if invoice.status == "open" and invoice.next_attempt is not None:
            yield invoice.next_attempt, "3 collect", invoice.id
        if invoice.status == "open" and invoice.sent and invoice.due_date is not None:
            subscription = life.subscriptions[invoice.subscription]
            if subscription.status is StripeStatus.ACTIVE:
                yield invoice.due_date, "3 overdue", invoice.id
            elif subscription.status is StripeStatus.PAST_DUE and subscription.after_failure != "past_due":
                yield invoice.due_date + sum(subscription.retry_days) * DAY_S, "4 give up", invoice.id
    for session in life.sessions.values():
        if session.status == "open":
            yield session.expires_at, "9 session", session.id


def _due_of(one: StripeSubscription) -> Iterator[tuple[Seconds, str, str]]:
    if one.status in OVER or one.status is StripeStatus.PAUSED:
        return
    if one.status is StripeStatus.INCOMPLETE:
        yield one.created + FIRST_PAYMENT_WITHIN, "1 never paid", one.id
        return
    if one.status is StripeStatus.TRIALING and one.trial_end is not None and not one.trial_warned:
        yield max(one.trial_end - TRIAL_NOTICE, one.created), "0 trial will end", one.id
    if one.pause is not None and one.pause.resumes_at is not None:
        yield one.pause.resumes_at, "0 resume", one.id
    if one.cancel_at is not None:
        yield one.cancel_at, "0 cancel", one.id
    yield one.ends, "1 cycle", one.id


def end(w: StripeChangeset, one: StripeSubscription, reason: str) -> StripeSubscription:
    """Over at once. What is open is not collected any more."""
    for invoice in stripe_billing.invoices_of(w, one.id, "open", "draft"):
        w.put(invoice, next_attempt=None, finalizes_at=None, due_date=None)
    one = w.put(
        w.subscription(one.id),
        status=StripeStatus.CANCELED,
        canceled_at=one.canceled_at or w.at,
        ended_at=w.at,
        cancel_at_period_end=False,
        cancel_at=None,
        cancel_reason=reason,
        schedule=None,
        next_price=None,
    )
    w.tell("customer.subscription.deleted", one, subject=one.id)
    return one


def collect(w: StripeChangeset, invoice: StripeInvoice) -> None:
    """One try. After the last failed one, what the account's settings say."""
    subscription = w.subscription(invoice.subscription)
    if not subscription.failing:
        stripe_billing.pay(w, invoice)
        return
    waits = subscription.retry_days
    again = invoice.attempts < len(waits)
    stripe_billing.fail(w, invoice, next_attempt=w.at + waits[invoice.attempts] * DAY_S if again else None)
    _past_due(w, subscription.id)
    if not again:
        give_up(w, subscription.id)


def give_up(w: StripeChangeset, id: str) -> None:
    subscription = w.subscription(id)
    if subscription.after_failure == "cancel":
        end(w, subscription, "payment_failed")
    elif subscription.after_failure == "unpaid":
        before = str(subscription.status)
        subscription = w.put(subscription, status=StripeStatus.UNPAID)
        w.tell("customer.subscription.updated", subscription, subject=id, status=before)


def resume(w: StripeChangeset, one: StripeSubscription) -> StripeSubscription:
    before = {"behavior": one.pause.behavior, "resumes_at": one.pause.resumes_at} if one.pause else None
    one = w.put(one, pause=None)
    w.tell("customer.subscription.updated", one, subject=one.id, pause_collection=before)
    return one


def _cycle(w: StripeChangeset, id: str) -> None:
    """A period ends, and the next one begins with an invoice."""
    one = w.subscription(id)
    if one.cancel_at_period_end:
        end(w, one, one.cancel_reason or "cancellation_requested")
        return
    after_trial = one.status is StripeStatus.TRIALING
    if after_trial and one.no_card in ("cancel", "pause"):
        _without_card(w, one)
        return
    before = {"items": {"data": [{"current_period_end": one.ends, "current_period_start": one.starts}]}}
    anchor = one.ends if after_trial else one.anchor
    price = w.price(one.next_price or one.items[0].price)
    ends = next_period(price, one.ends, anchor)
    items = tuple(replace(item, starts=item.ends, ends=ends) for item in one.items)
    if one.next_price is not None:
        items = (replace(items[0], price=one.next_price), *items[1:])
    status = StripeStatus.ACTIVE if after_trial else one.status
    one = w.put(one, items=items, anchor=anchor, status=status, next_price=None, schedule=None)
    lines = tuple(stripe_billing.line_of(w, item) for item in items)
    invoice = stripe_billing.draft(w, one, "subscription_cycle", lines)
    one = w.subscription(id)
    changed = {**before, **({"status": "trialing"} if after_trial else {})}
    w.tell("customer.subscription.updated", one, subject=id, **changed)
    w.tell("invoice.created", invoice, subject=id)
    if one.status is StripeStatus.UNPAID:
        return
    if one.pause is not None:
        _uncollected(w, one, invoice)
    elif one.draft_for:
        w.put(invoice, finalizes_at=w.at + one.draft_for)
    else:
        _finalize(w, invoice.id)


def _finalize(w: StripeChangeset, id: str) -> None:
    invoice = stripe_billing.finalize(w, w.invoice(id))
    if invoice.status == "open" and not invoice.sent:
        collect(w, invoice)


def _uncollected(w: StripeChangeset, one: StripeSubscription, invoice: StripeInvoice) -> None:
    assert one.pause is not None
    if one.pause.behavior == "keep_as_draft":
        return
    invoice = w.put(invoice, finalized_at=w.at)
    if one.pause.behavior == "void":
        stripe_billing.void(w, invoice)
    else:
        stripe_billing.write_off(w, invoice)


def _without_card(w: StripeChangeset, one: StripeSubscription) -> None:
    if one.no_card == "cancel":
        end(w, one, "cancellation_requested")
        return
    one = w.put(one, status=StripeStatus.PAUSED)
    w.tell("customer.subscription.updated", one, subject=one.id, status="trialing")
    w.tell("customer.subscription.paused", one, subject=one.id)


def _past_due(w: StripeChangeset, id: str) -> None:
    one = w.subscription(id)
    if one.status is StripeStatus.ACTIVE:
        one = w.put(one, status=StripeStatus.PAST_DUE)
        w.tell("customer.subscription.updated", one, subject=id, status="active")


def _collect(w: StripeChangeset, id: str) -> None:
    collect(w, w.invoice(id))


def _overdue(w: StripeChangeset, id: str) -> None:
    invoice = w.invoice(id)
    w.tell("invoice.overdue", invoice, subject=invoice.subscription)
    _past_due(w, invoice.subscription)


def _never_paid(w: StripeChangeset, id: str) -> None:
    one = w.subscription(id)
    for invoice in stripe_billing.invoices_of(w, id, "open"):
        stripe_billing.void(w, invoice)
    one = w.put(one, status=StripeStatus.INCOMPLETE_EXPIRED, ended_at=w.at)
    w.tell("customer.subscription.updated", one, subject=id, status="incomplete")


def _warn(w: StripeChangeset, id: str) -> None:
    one = w.put(w.subscription(id), trial_warned=True)
    w.tell("customer.subscription.trial_will_end", one, subject=id)


def _cancel(w: StripeChangeset, id: str) -> None:
    one = w.subscription(id)
    end(w, one, one.cancel_reason or "cancellation_requested")


def _resume(w: StripeChangeset, id: str) -> None:
    resume(w, w.subscription(id))


def _give_up(w: StripeChangeset, id: str) -> None:
    invoice = w.invoice(id)
    w.put(invoice, due_date=None)
    give_up(w, invoice.subscription)


def _session(w: StripeChangeset, id: str) -> None:
    stripe_purchases.expire_session(w, w.session(id))


_HAPPENS = {
    "0 trial will end": _warn,
    "0 resume": _resume,
    "0 cancel": _cancel,
    "1 never paid": _never_paid,
    "1 cycle": _cycle,
    "2 finalize": _finalize,
    "3 collect": _collect,
    "3 overdue": _overdue,
    "4 give up": _give_up,
    "9 session": _session,
}
