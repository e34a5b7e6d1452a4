"""What a customer's subscriptions and grants were at every moment: stretches of time, and what happened at an instant.

`subjects/customers/page/timeline_svg.py` says where it stands on a page.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.money.amounts import Price
from latchkey.domain.purchases.purchase import Purchase, PurchaseKind
from latchkey.domain.purchases.subscription import Cause, Period, PeriodType, Subscription
from latchkey.domain.purchases.summary import SubscriptionState, standing_of


class SpanKind(StrEnum):
    TRIAL = "trial"
    INTRO = "intro"
    PAID = "paid"
    GRANTED = "granted"
    TEMPORARY = "temporary"
    GRACE = "grace"
    RETRY = "retry"
    PAUSE = "pause"
    GAP = "gap"
    REFUNDED = "refunded"


_KIND_OF_PERIOD = {
    PeriodType.TRIAL: SpanKind.TRIAL,
    PeriodType.INTRO: SpanKind.INTRO,
    PeriodType.PROMOTIONAL: SpanKind.GRANTED,
}
_KIND_OF_PURCHASE = {PurchaseKind.PROMOTIONAL: SpanKind.GRANTED, PurchaseKind.TEMPORARY: SpanKind.TEMPORARY}


class FailedPayment(Struct, frozen=True):
    at: Ms
    # Until when the store kept access open, if it did.
    grace_until: Ms | None


class Past(Struct, frozen=True):
    """Failed payments and pauses of the past, which a customer's state does not keep; by the store and id of a
    subscription."""

    failed: dict[tuple[str, str], tuple[FailedPayment, ...]]
    # When a pause began.
    paused: dict[tuple[str, str], tuple[Ms, ...]]


NOTHING = Past({}, {})


class TimelineSpan(Struct, frozen=True):
    kind: SpanKind
    start: Ms
    # None never ends.
    end: Ms | None
    product_id: str
    transaction_id: str
    price: Price | None = None


class TimelineMark(Struct, frozen=True):
    at: Ms
    words: str


class PurchaseTimeline(Struct, frozen=True):
    """One subscription, one-time purchase or grant."""

    title: str
    store: str
    id: str
    spans: tuple[TimelineSpan, ...]
    marks: tuple[TimelineMark, ...] = ()


def lives(customer: Customer, catalog: Catalog, now: Ms, past: Past = NOTHING) -> list[PurchaseTimeline]:
    """Everything that ever gave this customer access, in the order it began. What is used up at once is left out.
    `past`: what events say of failed payments and pauses before the current period."""
    found = [_of_subscription(subscription, now, past) for subscription in customer.subscriptions]
    found += [
        _of_purchase(purchase)
        for purchase in customer.purchases
        if purchase.entitlement_id or catalog.grants(purchase.product_id)
    ]
    return sorted(
        (timeline for timeline in found if timeline.spans), key=lambda one: (one.spans[0].start, one.store, one.id)
    )


def latest(lives: Sequence[PurchaseTimeline], most: int) -> list[PurchaseTimeline]:
    """The last ones of all stretches of time, as many as somebody would read; lives without any are left out."""
    starts = sorted((span.start for life in lives for span in life.spans), reverse=True)
    if len(starts) <= most:
        return list(lives)
    since = starts[most - 1]
    trimmed = (
        replace(timeline, spans=tuple(span for span in timeline.spans if span.start >= since)) for timeline in lives
    )
    return [timeline for timeline in trimmed if timeline.spans]


def _of_subscription(subscription: Subscription, now: Ms, past: Past) -> PurchaseTimeline:
    spans = tuple(span for span in _spans(subscription, now, past) if span.end is None or span.end > span.start)
    failed = past.failed.get((subscription.store, subscription.id), ())
    marks = {*_marks(subscription), *(TimelineMark(payment.at, "Payment failed") for payment in failed)}
    ordered = tuple(sorted(marks, key=lambda one: one.at))
    return PurchaseTimeline(subscription.current.product_id, subscription.store, subscription.id, spans, ordered)


def _spans(subscription: Subscription, now: Ms, past: Past) -> Iterator[TimelineSpan]:
    told_until: Ms | None = None
    for index, period in enumerate(subscription.periods):
        following = subscription.periods[index + 1] if index + 1 < len(subscription.periods) else None
        start = period.starts_at
        if told_until is not None and start > told_until:
            yield from _between(subscription, past, told_until, period)
        # The payment came late, within the grace period: access went on, though it was not paid yet.
        if start < period.purchased_at:
            yield TimelineSpan(SpanKind.GRACE, start, period.purchased_at, period.product_id, period.id)
        stop = period.ends_at if following is None else min(period.ends_at, following.starts_at)
        kind = _KIND_OF_PERIOD.get(period.period_type, SpanKind.PAID)
        end = min(period.access_ends_at, stop)
        yield TimelineSpan(kind, period.purchased_at, end, period.product_id, period.id, period.price)
        if period.refunded_at is not None and end < stop:
            yield TimelineSpan(SpanKind.REFUNDED, end, stop, period.product_id, period.id)
        told_until = stop
    yield from _afterwards(subscription, now)


def _between(subscription: Subscription, past: Past, start: Ms, following: Period) -> Iterator[TimelineSpan]:
    """The time between two periods: a pause, a grace period and a payment that failed, or nothing."""
    key, end = (subscription.store, subscription.id), following.starts_at
    product, id = following.product_id, following.id
    if any(start <= at < end for at in past.paused.get(key, ())):
        yield TimelineSpan(SpanKind.PAUSE, start, end, product, id)
        return
    # A payment fails at the end of a period, or up to a day before it.
    failed = [payment for payment in past.failed.get(key, ()) if start - DAY <= payment.at < end]
    if failed and following.cause is Cause.RENEWAL:
        grace_until = min(max((payment.grace_until or start for payment in failed), default=start), end)
        if grace_until > start:
            yield TimelineSpan(SpanKind.GRACE, start, grace_until, product, id)
            start = grace_until
        yield TimelineSpan(SpanKind.RETRY, start, end, product, id)
    else:
        yield TimelineSpan(SpanKind.GAP, start, end, product, id)


def _afterwards(subscription: Subscription, now: Ms) -> Iterator[TimelineSpan]:
    """What follows the last period: a grace period, a pause, or a payment that does not come."""
    current, end = subscription.current, subscription.access_ends_at
    if subscription.in_grace:
        yield TimelineSpan(SpanKind.GRACE, current.ends_at, end, current.product_id, current.id)
    standing, pause = standing_of(subscription, now), subscription.status.pause
    if standing in (SubscriptionState.PAUSES, SubscriptionState.PAUSED) and pause is not None:
        yield TimelineSpan(SpanKind.PAUSE, current.ends_at, pause.ends_at, current.product_id, current.id)
    elif standing is SubscriptionState.BILLING_RETRY:
        yield TimelineSpan(SpanKind.RETRY, end, now, current.product_id, current.id)


def _marks(subscription: Subscription) -> Iterator[TimelineMark]:
    for before, after in zip(subscription.periods, subscription.periods[1:], strict=False):
        if before.product_id != after.product_id:
            yield TimelineMark(after.purchased_at, f"Changed from {before.product_id} to {after.product_id}")
    for period in subscription.periods:
        for fact in period.money_back:
            yield TimelineMark(fact.at, "Refund reversed" if fact.reversal else "Refunded")
    status = subscription.status
    if status.renewal_off_at is not None and not status.auto_renew:
        yield TimelineMark(status.renewal_off_at, "Renewal turned off")
    if status.billing_issue_at is not None:
        yield TimelineMark(status.billing_issue_at, "Payment failed")


def _of_purchase(purchase: Purchase) -> PurchaseTimeline:
    end = purchase.access_ends_at
    kind = _KIND_OF_PURCHASE.get(purchase.kind, SpanKind.PAID)
    paid = purchase.price if kind is SpanKind.PAID else None
    spans = []
    if end is None or end > purchase.purchased_at:
        spans.append(TimelineSpan(kind, purchase.purchased_at, end, purchase.product_id, purchase.id, paid))
    marks = [TimelineMark(back.at, "Refund reversed" if back.reversal else "Refunded") for back in purchase.money_back]
    if purchase.revoked_at is not None:
        marks.append(TimelineMark(purchase.revoked_at, "Revoked"))
    title = purchase.entitlement_id or purchase.product_id
    return PurchaseTimeline(title, purchase.store, purchase.id, tuple(spans), tuple(marks))
