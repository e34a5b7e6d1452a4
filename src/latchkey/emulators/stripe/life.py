"""What can happen to a subscription at Stripe. Each function gives the new books and the events that Stripe would tell.
No clock, no I/O, no randomness: the moment comes in."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal

from latchkey.domain.refusal import Refusal
from latchkey.emulators.stripe import billing, buying, passing
from latchkey.emulators.stripe.state import (
    DAY_S,
    OVER,
    AfterFailure,
    Item,
    Life,
    Line,
    Pause,
    Price,
    Seconds,
    Status,
    Step,
    Subscription,
    next_period,
)
from latchkey.emulators.stripe.working import Work

Proration = Literal["create_prorations", "always_invoice", "none"]


def cancel(life: Life, at: Seconds, id: str) -> Step:
    """At the end of the paid period."""
    w = Work(life, at)
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


def uncancel(life: Life, at: Seconds, id: str) -> Step:
    w = Work(life, at)
    one = running(w, id)
    if not one.cancel_at_period_end and one.cancel_at is None:
        raise Refusal("It is not cancelled.", param="act")
    before = {"cancel_at_period_end": one.cancel_at_period_end, "canceled_at": one.canceled_at}
    _changed(w, one, before, cancel_at_period_end=False, cancel_at=None, canceled_at=None, cancel_reason=None)
    return w.done()


def cancel_now(life: Life, at: Seconds, id: str, *, reason: str = "cancellation_requested") -> Step:
    w = Work(life, at)
    one = w.subscription(id)
    if one.status in OVER:
        raise Refusal("The subscription has ended.", param="act")
    if one.status is Status.INCOMPLETE:
        for invoice in billing.invoices_of(w, id, "open"):
            billing.void(w, invoice)
    passing.end(w, one, reason)
    return w.done()


def cancel_at(life: Life, at: Seconds, id: str, when: Seconds) -> Step:
    w = Work(life, at)
    one = running(w, id)
    if when <= at:
        raise Refusal("cancel_at has to be in the future.", param="cancel_at")
    before = {"cancel_at": one.cancel_at, "canceled_at": one.canceled_at}
    _changed(w, one, before, cancel_at=when, canceled_at=at, cancel_reason="cancellation_requested")
    return w.done()


def fail_billing(
    life: Life, at: Seconds, id: str, *, then: AfterFailure = "cancel", retry_days: tuple[int, ...] = (3, 5, 7)
) -> Step:
    """Payments fail from now on. The next renewal shows it."""
    w = Work(life, at)
    w.put(running(w, id), failing=True, after_failure=then, retry_days=retry_days)
    return w.done()


def recover(life: Life, at: Seconds, id: str) -> Step:
    """The card works again, and everything open is paid."""
    w = Work(life, at)
    one = w.subscription(id)
    if one.status in OVER:
        raise Refusal("The subscription has ended.", param="act")
    open_ones = billing.invoices_of(w, id, "open")
    if not one.failing and not open_ones:
        raise Refusal("No payment has failed, so there is nothing to recover.", param="act")
    w.put(one, failing=False)
    for invoice in open_ones:
        billing.pay(w, invoice)
    return w.done()


def pay(life: Life, at: Seconds, id: str) -> Step:
    """The oldest open invoice is paid: the first one of an incomplete subscription, or one that was sent."""
    w = Work(life, at)
    one = w.subscription(id)
    open_ones = billing.invoices_of(w, id, "open")
    if not open_ones:
        raise Refusal("No invoice is open.", param="act")
    if one.status is Status.INCOMPLETE_EXPIRED:
        raise Refusal("The first payment came too late.", param="act")
    billing.pay(w, open_ones[0])
    return w.done()


def finalize(life: Life, at: Seconds, id: str) -> Step:
    """Every draft becomes an open invoice that waits for its payment."""
    w = Work(life, at)
    drafts = billing.invoices_of(w, id, "draft")
    if not drafts:
        raise Refusal("No invoice is a draft.", param="act")
    for invoice in drafts:
        billing.finalize(w, invoice)
    return w.done()


def change(
    life: Life,
    at: Seconds,
    id: str,
    name: str,
    *,
    proration: Proration = "always_invoice",
    item: str | None = None,
    quantity: int | None = None,
) -> Step:
    """To another price, now. With another interval the billing dates begin anew, and Stripe always invoices."""
    w = Work(life, at)
    one = running(w, id)
    old = next((each for each in one.items if item in (None, each.id)), None)
    price = buying.price_named(w, name)
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
    trialing = one.status is Status.TRIALING
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
        lines = (*lines, billing.line_of(w, new))
    return _charged(w, one, lines, previous, later=not anew and proration == "create_prorations")


def remove_item(life: Life, at: Seconds, id: str, item: str | None, *, proration: Proration = "always_invoice") -> Step:
    """Now. What is left of its price is a credit."""
    w = Work(life, at)
    one = running(w, id)
    old = next((each for each in one.items if each.id == item), one.items[-1] if item is None else None)
    if old is None:
        raise Refusal(f"The subscription has no item {item!r}.", param="items")
    if len(one.items) == 1:
        raise Refusal("A subscription has at least one item.", param="items")
    price = w.price(old.price)
    previous = {"items": {"data": [{"id": old.id, "price": {"id": price.id, "product": price.product}}]}}
    one = w.put(one, items=tuple(each for each in one.items if each.id != old.id), **_released(w, one))
    free = one.status is Status.TRIALING or proration == "none"
    lines = () if free else _prorated(w, old, old, price, price, anew=True)
    return _charged(w, one, lines, previous, later=proration == "create_prorations")


def _charged(w: Work, one: Subscription, lines: tuple[Line, ...], previous: dict[str, Any], *, later: bool) -> Step:
    """A change is told of, and invoiced now or with the next invoice."""
    if later:
        one, lines = w.put(one, pending=(*one.pending, *lines)), ()
    if not lines:
        w.tell("customer.subscription.updated", one, subject=one.id, **previous)
        return w.done()
    invoice = billing.draft(w, one, "subscription_update", lines)
    w.tell("customer.subscription.updated", w.subscription(one.id), subject=one.id, **previous)
    w.tell("invoice.created", invoice, subject=one.id)
    invoice = billing.finalize(w, invoice)
    if invoice.status == "open" and not invoice.sent:
        passing.collect(w, invoice)
    return w.done()


def change_later(life: Life, at: Seconds, id: str, name: str) -> Step:
    """To another price with the next period: a subscription schedule says so."""
    w = Work(life, at)
    one = running(w, id)
    price = buying.price_named(w, name)
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


def pause(life: Life, at: Seconds, id: str, pause: Pause) -> Step:
    """Of the collection: the subscription goes on, but nothing is charged."""
    w = Work(life, at)
    one = running(w, id)
    if pause.resumes_at is not None and pause.resumes_at <= at:
        raise Refusal("A pause has to end in the future.", param="for")
    _changed(w, one, {"pause_collection": None}, pause=pause)
    return w.done()


def resume(life: Life, at: Seconds, id: str) -> Step:
    w = Work(life, at)
    one = w.subscription(id)
    if one.status is Status.PAUSED:
        price = w.price(one.items[0].price)
        ends = next_period(price, at, at)
        items = tuple(replace(each, starts=at, ends=ends) for each in one.items)
        one = w.put(one, items=items, anchor=at, status=Status.ACTIVE, no_card=None)
        invoice = billing.draft(w, one, "subscription_cycle", tuple(billing.line_of(w, each) for each in items))
        w.tell("customer.subscription.updated", w.subscription(id), subject=id, status="paused")
        w.tell("customer.subscription.resumed", w.subscription(id), subject=id)
        w.tell("invoice.created", invoice, subject=id)
        invoice = billing.finalize(w, invoice)
        if invoice.status == "open" and not invoice.sent:
            passing.collect(w, invoice)
        return w.done()
    if one.pause is None or one.status in OVER:
        raise Refusal("The subscription is not paused.", param="act")
    passing.resume(w, one)
    return w.done()


def extend_trial(life: Life, at: Seconds, id: str, *, days: int = 0, until: Seconds | None = None) -> Step:
    w = Work(life, at)
    one = running(w, id)
    if one.status not in (Status.TRIALING, Status.ACTIVE):
        raise Refusal("Only a subscription that runs and is paid can have a longer trial.", param="act")
    if one.status is Status.ACTIVE:
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
        trial_warned=one.trial_warned and moved - passing.TRIAL_NOTICE <= at,
    )
    return w.done()


def _new_trial(w: Work, one: Subscription, until: Seconds) -> Step:
    """Free time for a subscription that is paid for: a trial that begins now, with an invoice of nothing."""
    if until <= one.ends:
        raise Refusal("A trial is only made longer here.", param="days")
    items = tuple(replace(each, starts=w.at, ends=until) for each in one.items)
    before = {"status": "active", "trial_end": one.trial_end}
    one = w.put(
        one,
        status=Status.TRIALING,
        items=items,
        anchor=until,
        trial_start=w.at,
        trial_end=until,
        trial_warned=until - passing.TRIAL_NOTICE <= w.at,
    )
    lines = tuple(billing.line_of(w, each, free=True) for each in items)
    invoice = billing.draft(w, one, "subscription_update", lines)
    w.tell("customer.subscription.updated", w.subscription(one.id), subject=one.id, **before)
    w.tell("invoice.created", invoice, subject=one.id)
    billing.finalize(w, invoice)
    return w.done()


def set_metadata(life: Life, at: Seconds, id: str, metadata: dict[str, str]) -> Step:
    w = Work(life, at)
    one = w.subscription(id)
    _changed(w, one, {"metadata": one.metadata}, metadata=metadata)
    return w.done()


def running(w: Work, id: str) -> Subscription:
    one = w.subscription(id)
    if one.status in OVER:
        raise Refusal("The subscription has ended.", param="act")
    if one.status is Status.INCOMPLETE:
        raise Refusal("The first payment has not come through; use pay.", param="act")
    return one


def _changed(w: Work, one: Subscription, previous: dict[str, Any], **fields: Any) -> None:
    w.tell("customer.subscription.updated", w.put(one, **fields), subject=one.id, **previous)


def _released(w: Work, one: Subscription) -> dict[str, Any]:
    """A change by hand ends a schedule."""
    if one.schedule is None:
        return {}
    w.tell_schedule("subscription_schedule.released", one)
    return {"schedule": None, "next_price": None}


def _prorated(w: Work, old: Item, new: Item, before: Price, price: Price, *, anew: bool) -> tuple[Line, ...]:
    """A credit for the time that is left of the old price, and without a new period a debit for the new one."""
    left = Fraction(old.ends - w.at, old.ends - old.starts)
    names = {one.id: w.life.products[one.product].name for one in (before, price)}
    credit = Line(
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
