"""What can happen to a subscription at Stripe. Each function works on a changeset of the books, which collects the
events that Stripe would send. No clock, no I/O, no randomness: the moment is the changeset's."""

from typing import Any, Literal

from msgspec.structs import replace

from latchkey.domain.instants import SECOND, add
from latchkey.domain.refusal import Invalid, Refusal
from latchkey.emulators.control_requests import duration_of, invalid_if, refuse_if
from latchkey.emulators.stripe import stripe_billing, stripe_due_events, stripe_purchases
from latchkey.emulators.stripe.stripe_books import (
    DAY_S,
    OVER,
    AfterFailure,
    InvoiceLine,
    Seconds,
    StripeItem,
    StripePause,
    StripePrice,
    StripeStatus,
    StripeSubscription,
    next_period,
)
from latchkey.emulators.stripe.stripe_changeset import StripeChangeset

Proration = Literal["create_prorations", "always_invoice", "none"]
PauseBehavior = Literal["void", "keep_as_draft", "mark_uncollectible"]
EndReason = Literal["cancellation_requested", "payment_failed", "payment_disputed"]


def cancel(changes: StripeChangeset, id: str) -> None:
    """At the end of the paid period."""
    subscription = running(changes, id)
    refuse_if(subscription.cancel_at_period_end, "It is cancelled already.")
    changes.update(
        subscription,
        {"cancel_at_period_end": False, "cancel_at": None, "canceled_at": None},
        cancel_at_period_end=True,
        canceled_at=changes.at,
        cancel_reason="cancellation_requested",
        **_released(changes, subscription),
    )


def uncancel(changes: StripeChangeset, id: str) -> None:
    subscription = running(changes, id)
    refuse_if(not subscription.cancel_at_period_end and subscription.cancel_at is None, "It is not cancelled.")
    before = {"cancel_at_period_end": subscription.cancel_at_period_end, "canceled_at": subscription.canceled_at}
    changes.update(
        subscription, before, cancel_at_period_end=False, cancel_at=None, canceled_at=None, cancel_reason=None
    )


def cancel_now(changes: StripeChangeset, id: str, *, reason: EndReason = "cancellation_requested") -> None:
    subscription = changes.subscription(id)
    refuse_if(subscription.status in OVER, "The subscription has ended.")
    if subscription.status is StripeStatus.INCOMPLETE:
        for invoice in stripe_billing.invoices_of(changes, id, "open"):
            stripe_billing.close(changes, invoice)
    stripe_due_events.end(changes, subscription, reason)


def cancel_at(changes: StripeChangeset, id: str, when: Seconds) -> None:
    subscription = running(changes, id)
    refuse_if(when <= changes.at, "cancel_at has to be in the future.", "cancel_at")
    before = {"cancel_at": subscription.cancel_at, "canceled_at": subscription.canceled_at}
    changes.update(subscription, before, cancel_at=when, canceled_at=changes.at, cancel_reason="cancellation_requested")


def fail_billing(
    changes: StripeChangeset, id: str, *, then: AfterFailure = "cancel", retry_days: tuple[int, ...] = (3, 5, 7)
) -> None:
    """Payments fail from now on. The next renewal shows it."""
    if len(retry_days) > 8 or not all(1 <= days <= 60 for days in retry_days):
        raise Invalid("retry_days are at most 8 waits of 1 to 60 days.", param="retry_days")
    changes.put(running(changes, id), failing=True, after_failure=then, retry_days=retry_days)


def recover(changes: StripeChangeset, id: str) -> None:
    """The card works again, and everything open is paid."""
    subscription = changes.subscription(id)
    refuse_if(subscription.status in OVER, "The subscription has ended.")
    open_invoices = stripe_billing.invoices_of(changes, id, "open")
    refuse_if(not subscription.failing and not open_invoices, "No payment has failed, so there is nothing to recover.")
    changes.put(subscription, failing=False)
    for invoice in open_invoices:
        stripe_billing.pay(changes, invoice)


def pay(changes: StripeChangeset, id: str) -> None:
    """The oldest open invoice is paid: the first one of an incomplete subscription, or one that was sent. Or a checkout
    session is completed."""
    if id in changes.books.sessions:
        stripe_purchases.complete_session(changes, changes.session(id))
        return
    subscription = changes.subscription(id)
    open_invoices = stripe_billing.invoices_of(changes, id, "open")
    refuse_if(not open_invoices, "No invoice is open.")
    refuse_if(subscription.status is StripeStatus.INCOMPLETE_EXPIRED, "The first payment came too late.")
    stripe_billing.pay(changes, open_invoices[0])


def finalize(changes: StripeChangeset, id: str) -> None:
    """Every draft becomes an open invoice that waits for its payment."""
    drafts = stripe_billing.invoices_of(changes, id, "draft")
    refuse_if(not drafts, "No invoice is a draft.")
    for invoice in drafts:
        stripe_billing.finalize(changes, invoice)


def change(
    changes: StripeChangeset,
    id: str,
    *,
    product_id: str,
    deferred: bool = False,
    proration: Proration = "always_invoice",
    item: str | None = None,
) -> None:
    """To another price. `deferred`: with the next period, by a subscription schedule."""
    if deferred:
        change_later(changes, id, product_id)
    else:
        change_now(changes, id, product_id, proration=proration, item=item)


def change_now(
    changes: StripeChangeset,
    id: str,
    name: str,
    *,
    proration: Proration = "always_invoice",
    item: str | None = None,
    quantity: int | None = None,
) -> None:
    """With another interval the billing dates begin anew, and Stripe always invoices."""
    subscription = running(changes, id)
    old = _item_of(subscription, item, subscription.items[0])
    price = stripe_purchases.price_named(changes, name)
    refuse_if(price.interval is None, f"{price.name!r} is paid once.", "product_id")
    refuse_if(price.currency != subscription.currency, "A subscription keeps its currency.", "product_id")
    if price.id == old.price and quantity in (None, old.quantity):
        raise Refusal(f"The subscription is {price.name!r} already.", param="product_id")
    before = changes.price(old.price)
    new = replace(old, price=price.id, quantity=quantity if quantity is not None else old.quantity)
    trialing = subscription.status is StripeStatus.TRIALING
    anew = not trialing and (price.interval, price.count) != (before.interval, before.count)
    refuse_if(anew and len(subscription.items) > 1, "All items of a subscription have the same interval.", "items")
    if anew:
        new = replace(new, starts=changes.at, ends=next_period(price, changes.at, changes.at))
    items = tuple(new if each.id == old.id else each for each in subscription.items)
    previous = _previous_item(old, before)
    anchor = changes.at if anew else subscription.anchor
    subscription = changes.put(subscription, items=items, anchor=anchor, **_released(changes, subscription))
    free = trialing or proration == "none"
    lines = () if free else stripe_billing.prorated(changes, old, new, before, price, anew=anew)
    if anew:
        lines = (*lines, stripe_billing.line_of(changes, new))
    _charged(changes, subscription, lines, previous, later=not anew and proration == "create_prorations")


def remove_item(
    changes: StripeChangeset, id: str, *, item: str | None = None, proration: Proration = "always_invoice"
) -> None:
    """Now; the last item if none is given. What is left of its price is a credit."""
    subscription = running(changes, id)
    old = _item_of(subscription, item, subscription.items[-1])
    refuse_if(len(subscription.items) == 1, "A subscription has at least one item.", "items")
    price = changes.price(old.price)
    previous = _previous_item(old, price)
    items = tuple(each for each in subscription.items if each.id != old.id)
    subscription = changes.put(subscription, items=items, **_released(changes, subscription))
    free = subscription.status is StripeStatus.TRIALING or proration == "none"
    lines = () if free else stripe_billing.prorated(changes, old, old, price, price, anew=True)
    _charged(changes, subscription, lines, previous, later=proration == "create_prorations")


def add_item(
    changes: StripeChangeset, id: str, name: str, *, proration: Proration = "always_invoice", quantity: int = 1
) -> None:
    """For the rest of the running period."""
    subscription = running(changes, id)
    price, first = stripe_purchases.price_named(changes, name), changes.price(subscription.items[0].price)
    if (price.currency, price.interval, price.count) != (first.currency, first.interval, first.count):
        raise Refusal("All items of a subscription have the same currency and interval.", param="items")
    new = replace(subscription.items[0], id=changes.id("si"), created=changes.at, price=price.id, quantity=quantity)
    subscription = changes.put(subscription, items=(*subscription.items, new), **_released(changes, subscription))
    free = subscription.status is StripeStatus.TRIALING or proration == "none"
    lines = () if free else stripe_billing.prorated(changes, new, new, price, price, anew=False)[1:]
    _charged(changes, subscription, lines, {"items": {"data": []}}, later=proration == "create_prorations")


def _charged(
    changes: StripeChangeset,
    subscription: StripeSubscription,
    lines: tuple[InvoiceLine, ...],
    previous: dict[str, Any],
    *,
    later: bool,
) -> None:
    """Sends the update, and invoices it now or with the next invoice."""
    if later:
        subscription, lines = changes.put(subscription, pending=(*subscription.pending, *lines)), ()
    if not lines:
        changes.update(subscription, previous)
        return
    invoice = stripe_billing.invoiced(changes, subscription, "subscription_update", lines, previous)
    stripe_due_events.finalize(changes, invoice.id)


def change_later(changes: StripeChangeset, id: str, name: str) -> None:
    subscription = running(changes, id)
    price = stripe_purchases.price_named(changes, name)
    if price.interval is None or price.currency != subscription.currency:
        raise Refusal(f"{price.name!r} is paid once, or in another currency.", param="product_id")
    refuse_if(price.id == subscription.items[0].price, f"The subscription is {price.name!r} already.", "product_id")
    refuse_if(len(subscription.items) > 1, "Only a subscription with one item can be changed so here.")
    refuse_if(subscription.cancel_at_period_end, "It ends with the period; use uncancel first.")
    schedule = subscription.schedule or changes.id("sub_sched")
    changes.update(subscription, {"schedule": subscription.schedule}, schedule=schedule, next_price=price.id)
    changes.emit_schedule(
        f"subscription_schedule.{'updated' if subscription.schedule else 'created'}", changes.subscription(id)
    )


def pause(changes: StripeChangeset, id: str, *, duration: str | None = None, behavior: PauseBehavior = "void") -> None:
    """Until resumed, if no duration is given."""
    until = None if duration is None else add(changes.at * SECOND, duration_of(duration, "for")) // SECOND
    pause_collection(changes, id, StripePause(behavior=behavior, resumes_at=until))


def pause_collection(changes: StripeChangeset, id: str, pause: StripePause) -> None:
    """The subscription goes on, but nothing is charged."""
    subscription = running(changes, id)
    if pause.resumes_at is not None and pause.resumes_at <= changes.at:
        raise Refusal("A pause has to end in the future.", param="for")
    changes.update(subscription, {"pause_collection": None}, pause=pause)


def resume(changes: StripeChangeset, id: str) -> None:
    subscription = changes.subscription(id)
    if subscription.status is StripeStatus.PAUSED:
        price = changes.price(subscription.items[0].price)
        ends = next_period(price, changes.at, changes.at)
        items = tuple(replace(item, starts=changes.at, ends=ends) for item in subscription.items)
        subscription = changes.put(
            subscription, items=items, anchor=changes.at, status=StripeStatus.ACTIVE, no_card=None
        )
        lines = tuple(stripe_billing.line_of(changes, item) for item in items)
        invoice = stripe_billing.invoiced(
            changes, subscription, "subscription_cycle", lines, {"status": "paused"}, events=("updated", "resumed")
        )
        stripe_due_events.finalize(changes, invoice.id)
        return
    refuse_if(subscription.pause is None or subscription.status in OVER, "The subscription is not paused.")
    stripe_due_events.resume(changes, id)


def extend_trial(changes: StripeChangeset, id: str, *, days: int = 7) -> None:
    invalid_if(not 1 <= days <= 730, "days is 1 to 730.", "days")
    extend_trial_to(changes, id, running(changes, id).ends + days * DAY_S)


def extend_trial_to(changes: StripeChangeset, id: str, until: Seconds) -> None:
    subscription = running(changes, id)
    if subscription.status not in (StripeStatus.TRIALING, StripeStatus.ACTIVE):
        raise Refusal("Only a subscription that runs and is paid can have a longer trial.", param="act")
    if subscription.status is StripeStatus.ACTIVE:
        _new_trial(changes, subscription, until)
        return
    assert subscription.trial_end is not None
    refuse_if(until <= max(changes.at, subscription.trial_end), "A trial is only made longer here.", "days")
    changes.update(
        subscription,
        {"trial_end": subscription.trial_end},
        trial_end=until,
        anchor=until,
        items=tuple(replace(item, ends=until) for item in subscription.items),
        trial_warned=subscription.trial_warned and until - stripe_due_events.TRIAL_NOTICE <= changes.at,
    )


def _new_trial(changes: StripeChangeset, subscription: StripeSubscription, until: Seconds) -> None:
    """Free time for a subscription that is paid for: a trial that begins now, with an invoice of nothing."""
    refuse_if(until <= subscription.ends, "A trial is only made longer here.", "days")
    items = tuple(replace(item, starts=changes.at, ends=until) for item in subscription.items)
    before = {"status": "active", "trial_end": subscription.trial_end}
    subscription = changes.put(
        subscription,
        status=StripeStatus.TRIALING,
        items=items,
        anchor=until,
        trial_start=changes.at,
        trial_end=until,
        trial_warned=until - stripe_due_events.TRIAL_NOTICE <= changes.at,
    )
    lines = tuple(stripe_billing.line_of(changes, item, free=True) for item in items)
    invoice = stripe_billing.invoiced(changes, subscription, "subscription_update", lines, before)
    stripe_billing.finalize(changes, invoice)


def running(changes: StripeChangeset, id: str) -> StripeSubscription:
    subscription = changes.subscription(id)
    refuse_if(subscription.status in OVER, "The subscription has ended.")
    refuse_if(subscription.status is StripeStatus.INCOMPLETE, "The first payment has not come through; use pay.")
    return subscription


def _item_of(subscription: StripeSubscription, id: str | None, usual: StripeItem) -> StripeItem:
    """The item that was named, or the usual one."""
    if id is None:
        return usual
    named = [item for item in subscription.items if item.id == id]
    refuse_if(not named, f"The subscription has no item {id!r}.", "items")
    return named[0]


def _previous_item(item: StripeItem, price: StripePrice) -> dict[str, Any]:
    return {"items": {"data": [{"id": item.id, "price": {"id": price.id, "product": price.product}}]}}


def _released(changes: StripeChangeset, subscription: StripeSubscription) -> dict[str, Any]:
    """A change by hand ends a schedule."""
    if subscription.schedule is None:
        return {}
    changes.emit_schedule("subscription_schedule.released", subscription)
    return {"schedule": None, "next_price": None}
