"""What can happen to a subscription at Stripe. Each function gives the new books and the events that Stripe would tell.
No clock, no I/O, no randomness: the moment comes in."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal

from latchkey.domain.refusal import Refusal
from latchkey.emulators.stripe import stripe_billing, stripe_due_events, stripe_purchases
from latchkey.emulators.stripe.stripe_books import (
    DAY_S,
    OVER,
    AfterFailure,
    InvoiceLine,
    Seconds,
    StripeBooks,
    StripeItem,
    StripePause,
    StripePrice,
    StripeStatus,
    StripeStep,
    StripeSubscription,
    next_period,
)
from latchkey.emulators.stripe.stripe_changeset import StripeChangeset

Proration = Literal["create_prorations", "always_invoice", "none"]


def cancel(life: StripeBooks, at: Seconds, id: str) -> StripeStep:
    """At the end of the paid period."""
    w = StripeChangeset(life, at)
    one = running(w, id)
    if one.cancel_at_period_end:
        raise Refusal("It is cancelled already.", param="act")
    _changed(
        w,
        one,
        {"cancel_at_period_end": False, "cancel_at": None, "canceled_at": None},
        cancel_at_period_end=True,
        canceled_at=at,
        cancel_reason="cancellation_requested",
        **_released(w, one),
    )
    return w.done()


def uncancel(life: StripeBooks, at: Seconds, id: str) -> StripeStep:
    w = StripeChangeset(life, at)
    one = running(w, id)
    if not one.cancel_at_period_end and one.cancel_at is None:
        raise Refusal("It is not cancelled.", param="act")
    before = {"cancel_at_period_end": one.cancel_at_period_end, "canceled_at": one.canceled_at}
    _changed(w, one, before, cancel_at_period_end=False, cancel_at=None, canceled_at=None, cancel_reason=None)
    return w.done()


def cancel_now(life: StripeBooks, at: Seconds, id: str, *, reason: str = "cancellation_requested") -> StripeStep:
    w = StripeChangeset(life, at)
    one = w.subscription(id)
    if one.status in OVER:
        raise Refusal("The subscription has ended.", param="act")
    if one.status is StripeStatus.INCOMPLETE:
        for invoice in stripe_billing.invoices_of(w, id, "open"):
            stripe_billing.void(w, invoice)
    stripe_due_events.end(w, one, reason)
    return w.done()


def cancel_at(life: StripeBooks, at: Seconds, id: str, when: Seconds) -> StripeStep:
    w = StripeChangeset(life, at)
    one = running(w, id)
    if when <= at:
        raise Refusal("cancel_at has to be in the future.", param="cancel_at")
    before = {"cancel_at": one.cancel_at, "canceled_at": one.canceled_at}
    _changed(w, one, before, cancel_at=when, canceled_at=at, cancel_reason="cancellation_requested")
    return w.done()


def fail_billing(
    life: StripeBooks, at: Seconds, id: str, *, then: AfterFailure = "cancel", retry_days: tuple[int, ...] = (3, 5, 7)
) -> StripeStep:
    """Payments fail from now on. The next renewal shows it."""
    w = StripeChangeset(life, at)
    w.put(running(w, id), failing=True, after_failure=then, retry_days=retry_days)
    return w.done()


def recover(life: StripeBooks, at: Seconds, id: str) -> StripeStep:
    """The card works again, and everything open is paid."""
    w = StripeChangeset(life, at)
    one = w.subscription(id)
    if one.status in OVER:
        raise Refusal("The subscription has ended.", param="act")
    open_ones = stripe_billing.invoices_of(w, id, "open")
    if not one.failing and not open_ones:
        raise Refusal("No payment has failed, so there is nothing to recover.", param="act")
    w.put(one, failing=False)
    for invoice in open_ones:
        stripe_billing.pay(w, invoice)
    return w.done()


def pay(life: StripeBooks, at: Seconds, id: str) -> StripeStep:
    """The oldest open invoice is paid: the first one of an incomplete subscription, or one that was sent."""
    w = StripeChangeset(life, at)
    one = w.subscription(id)
    open_ones = stripe_billing.invoices_of(w, id, "open")
    if not open_ones:
        raise Refusal("No invoice is open.", param="act")
    if one.status is StripeStatus.INCOMPLETE_EXPIRED:
        raise Refusal("The first payment came too late.", param="act")
    stripe_billing.pay(w, open_ones[0])
    return w.done()


def finalize(life: StripeBooks, at: Seconds, id: str) -> StripeStep:
    """Every draft becomes an open invoice that waits for its payment."""
    w = StripeChangeset(life, at)
    drafts = stripe_billing.invoices_of(w, id, "draft")
    if not drafts:
        raise Refusal("No invoice is a draft.", param="act")
    for invoice in drafts:
        stripe_billing.finalize(w, invoice)
    return w.done()


def change(
    life: StripeBooks,
    at: Seconds,
    id: str,
    name: str,
    *,
    proration: Proration = "always_invoice",
    item: str | None = None,
    quantity: int | None = None,
) -> StripeStep:
    """To another price, now. With another interval the billing dates begin anew, and Stripe always invoices."""
    w = StripeChangeset(life, at)
    one = running(w, id)
    old = next((each for each in one.items if item in (None, each.id)), None)
    price = stripe_purchases.price_named(w, name)
    if old is None:
        raise Refusal(f"The subscription has no item {item!r}.", param="items")
    if price.interval is None:
        raise Refusal(f"{price.name!r} is paid once.", param="product_id")
    if price.currency != one.currency:
        raise Refusal("A subscription keeps its currency.", param="product_id")
    if price.id == old.price and quantity in (None, old.quantity):
        raise Refusal(f"The subscription is {price.name!r} already.", param="product_id")
    before = w.price(old.price)
    new = replace(old, price=price.id, quantity=quantity if quantity is not None else old.quantity)
    trialing = one.status is StripeStatus.TRIALING
    anew = not trialing and (price.interval, price.count) != (before.interval, before.count)
    if anew and len(one.items) > 1:
        raise Refusal("All items of a subscription have the same interval.", param="items")
    if anew:
        new = replace(new, starts=at, ends=next_period(price, at, at))
    items = tuple(new if each.id == old.id else each for each in one.items)
    previous = {"items": {"data": [{"id": old.id, "price": {"id": before.id, "product": before.product}}]}}
    one = w.put(one, items=items, anchor=at if anew else one.anchor, **_released(w, one))
    lines = () if trialing or proration == "none" else _prorated(w, old, new, before, price, anew=anew)
    if anew:
        lines = (*lines, stripe_billing.line_of(w, new))
    return _charged(w, one, lines, previous, later=not anew and proration == "create_prorations")


def remove_item(
    life: StripeBooks, at: Seconds, id: str, item: str | None, *, proration: Proration = "always_invoice"
) -> StripeStep:
    """Now. What is left of its price is a credit."""
    w = StripeChangeset(life, at)
    one = running(w, id)
    old = next((each for each in one.items if each.id == item), one.items[-1] if item is None else None)
    if old is None:
        raise Refusal(f"The subscription has no item {item!r}.", param="items")
    if len(one.items) == 1:
        raise Refusal("A subscription has at least one item.", param="items")
    price = w.price(old.price)
    previous = {"items": {"data": [{"id": old.id, "price": {"id": price.id, "product": price.product}}]}}
    one = w.put(one, items=tuple(each for each in one.items if each.id != old.id), **_released(w, one))
    free = one.status is StripeStatus.TRIALING or proration == "none"
    lines = () if free else _prorated(w, old, old, price, price, anew=True)
    return _charged(w, one, lines, previous, later=proration == "create_prorations")


def _charged(
    w: StripeChangeset,
    one: StripeSubscription,
    lines: tuple[InvoiceLine, ...],
    previous: dict[str, Any],
    *,
    later: bool,
) -> StripeStep:
    """A change is told of, and invoiced now or with the next invoice."""
    if later:
        one, lines = w.put(one, pending=(*one.pending, *lines)), ()
    if not lines:
        w.tell("customer.subscription.updated", one, subject=one.id, **previous)
        return w.done()
    invoice = stripe_billing.draft(w, one, "subscription_update", lines)
    w.tell("customer.subscription.updated", w.subscription(one.id), subject=one.id, **previous)
    w.tell("invoice.created", invoice, subject=one.id)
    invoice = stripe_billing.finalize(w, invoice)
    if invoice.status == "open" and not invoice.sent:
        stripe_due_events.collect(w, invoice)
    return w.done()


def change_later(life: StripeBooks, at: Seconds, id: str, name: str) -> StripeStep:
    """To another price with the next period: a subscription schedule says so."""
    w = StripeChangeset(life, at)
    one = running(w, id)
    price = stripe_purchases.price_named(w, name)
    if price.interval is None or price.currency != one.currency:
        raise Refusal(f"{price.name!r} is paid once, or in another currency.", param="product_id")
    if price.id == one.items[0].price:
        raise Refusal(f"The subscription is {price.name!r} already.", param="product_id")
    if len(one.items) > 1:
        raise Refusal("Only a subscription with one item can be changed so here.", param="act")
    if one.cancel_at_period_end:
        raise Refusal("It ends with the period; use uncancel first.", param="act")
    schedule = one.schedule or w.id("sub_sched")
    _changed(w, one, {"schedule": one.schedule}, schedule=schedule, next_price=price.id)
    w.tell_schedule(f"subscription_schedule.{'updated' if one.schedule else 'created'}", w.subscription(id))
    return w.done()


def pause(life: StripeBooks, at: Seconds, id: str, pause: StripePause) -> StripeStep:
    """Of the collection: the subscription goes on, but nothing is charged."""
    w = StripeChangeset(life, at)
    one = running(w, id)
    if pause.resumes_at is not None and pause.resumes_at <= at:
        raise Refusal("A pause has to end in the future.", param="for")
    _changed(w, one, {"pause_collection": None}, pause=pause)
    return w.done()


def resume(life: StripeBooks, at: Seconds, id: str) -> StripeStep:
    w = StripeChangeset(life, at)
    one = w.subscription(id)
    if one.status is StripeStatus.PAUSED:
        price = w.price(one.items[0].price)
        ends = next_period(price, at, at)
        items = tuple(replace(each, starts=at, ends=ends) for each in one.items)
        one = w.put(one, items=items, anchor=at, status=StripeStatus.ACTIVE, no_card=None)
        invoice = stripe_billing.draft(
            w, one, "subscription_cycle", tuple(stripe_billing.line_of(w, each) for each in items)
        )
        w.tell("customer.subscription.updated", w.subscription(id), subject=id, status="paused")
        w.tell("customer.subscription.resumed", w.subscription(id), subject=id)
        w.tell("invoice.created", invoice, subject=id)
        invoice = stripe_billing.finalize(w, invoice)
        if invoice.status == "open" and not invoice.sent:
            stripe_due_events.collect(w, invoice)
        return w.done()
    if one.pause is None or one.status in OVER:
        raise Refusal("The subscription is not paused.", param="act")
    stripe_due_events.resume(w, one)
    return w.done()


def extend_trial(life: StripeBooks, at: Seconds, id: str, *, days: int = 0, until: Seconds | None = None) -> StripeStep:
    w = StripeChangeset(life, at)
    one = running(w, id)
    if one.status not in (StripeStatus.TRIALING, StripeStatus.ACTIVE):
        raise Refusal("Only a subscription that runs and is paid can have a longer trial.", param="act")
    if one.status is StripeStatus.ACTIVE:
        return _new_trial(w, one, until if until is not None else one.ends + days * DAY_S)
    assert one.trial_end is not None
    moved = until if until is not None else one.trial_end + days * DAY_S
    if moved <= max(at, one.trial_end):
        raise Refusal("A trial is only made longer here.", param="days")
    _changed(
        w,
        one,
        {"trial_end": one.trial_end},
        trial_end=moved,
        anchor=moved,
        items=tuple(replace(each, ends=moved) for each in one.items),
        trial_warned=one.trial_warned and moved - stripe_due_events.TRIAL_NOTICE <= at,
    )
    return w.done()


def _new_trial(w: StripeChangeset, one: StripeSubscription, until: Seconds) -> StripeStep:
    """Free time for a subscription that is paid for: a trial that begins now, with an invoice of nothing."""
    if until <= one.ends:
        raise Refusal("A trial is only made longer here.", param="days")
    items = tuple(replace(each, starts=w.at, ends=until) for each in one.items)
    before = {"status": "active", "trial_end": one.trial_end}
    one = w.put(
        one,
        status=StripeStatus.TRIALING,
        items=items,
        anchor=until,
        trial_start=w.at,
        trial_end=until,
        trial_warned=until - stripe_due_events.TRIAL_NOTICE <= w.at,
    )
    lines = tuple(stripe_billing.line_of(w, each, free=True) for each in items)
    invoice = stripe_billing.draft(w, one, "subscription_update", lines)
    w.tell("customer.subscription.updated", w.subscription(one.id), subject=one.id, **before)
    w.tell("invoice.created", invoice, subject=one.id)
    stripe_billing.finalize(w, invoice)
    return w.done()


def set_metadata(life: StripeBooks, at: Seconds, id: str, metadata: dict[str, str]) -> StripeStep:
    w = StripeChangeset(life, at)
    one = w.subscription(id)
    _changed(w, one, {"metadata": one.metadata}, metadata=metadata)
    return w.done()


def running(w: StripeChangeset, id: str) -> StripeSubscription:
    one = w.subscription(id)
    if one.status in OVER:
        raise Refusal("The subscription has ended.", param="act")
    if one.status is StripeStatus.INCOMPLETE:
        raise Refusal("The first payment has not come through; use pay.", param="act")
    return one


def _changed(w: StripeChangeset, one: StripeSubscription, previous: dict[str, Any], **fields: Any) -> None:
    w.tell("customer.subscription.updated", w.put(one, **fields), subject=one.id, **previous)


def _released(w: StripeChangeset, one: StripeSubscription) -> dict[str, Any]:
    """A change by hand ends a schedule."""
    if one.schedule is None:
        return {}
    w.tell_schedule("subscription_schedule.released", one)
    return {"schedule": None, "next_price": None}


def _prorated(
    w: StripeChangeset, old: StripeItem, new: StripeItem, before: StripePrice, price: StripePrice, *, anew: bool
) -> tuple[InvoiceLine, ...]:
    """A credit for the time that is left of the old price, and without a new period a debit for the new one."""
    left = Fraction(old.ends - w.at, old.ends - old.starts)
    names = {one.id: w.life.products[one.product].name for one in (before, price)}
    credit = InvoiceLine(
        id=w.id("il"),
        item=old.id,
        price=before.id,
        amount=-round(before.amount * old.quantity * left),
        starts=w.at,
        ends=old.ends,
        description=f"Unused time on {names[before.id]}",
        quantity=old.quantity,
        proration=True,
    )
    if anew:
        return (credit,)
    debit = replace(
        credit,
        id=w.id("il"),
        price=price.id,
        amount=round(price.amount * new.quantity * left),
        description=f"Remaining time on {names[price.id]}",
        quantity=new.quantity,
    )
    return (credit, debit)
