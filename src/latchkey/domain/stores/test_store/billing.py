"""Billing in the test store: the next period, and when the store renews or resumes by itself."""

import calendar
from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec.structs import replace

from latchkey.domain.catalog import Catalog, Product
from latchkey.domain.instants import Duration, Ms, add, day_of_month
from latchkey.domain.money.amounts import Price
from latchkey.domain.purchases.purchase import Reason
from latchkey.domain.purchases.subscription import Cause, Moment, Period, PeriodType, Status, Subscription
from latchkey.domain.stores.store import TEST_STORE

STORE = TEST_STORE


def next_moment(subscription: Subscription, now: Ms) -> Moment:
    """A moment later than all earlier reports of this store, even within one millisecond."""
    last = subscription.status.as_of
    return Moment(now, 0) if now > last.at else Moment(last.at, last.revision + 1)


def latest_moment(subscriptions: Iterable[Subscription]) -> Ms:
    """The latest report of this store. Its time never goes back, so whatever it does next is not earlier."""
    return max(
        (subscription.status.as_of.at for subscription in subscriptions if subscription.store == STORE), default=0
    )


def renewed(subscription: Subscription, catalog: Catalog, now: Ms, *, follows: Ms) -> Subscription:
    """The subscription after a successful charge at `now`, for the period that begins at `follows`. If charged early,
    the new period replaces the current one at once and includes its remaining time."""
    current, moment = subscription.current, next_moment(subscription, now)
    product = catalog.products.get(subscription.status.next_product_id or current.product_id)
    if product is None or product.duration is None or STORE in catalog.closed_stores:
        # The product is gone, or the test store is closed: there is nothing to renew into.
        return replace(subscription, status=replace(subscription.status, as_of=moment, ended=Reason.UNKNOWN))
    changes = product.id != current.product_id
    price = product.price if changes or current.period_type is not PeriodType.NORMAL else current.price
    if price.currency != current.price.currency and current.period_type is PeriodType.TRIAL:
        # The trial was begun in another currency than the catalog's.
        price = Price(price.micros, current.price.currency)
    cause = Cause.CONVERSION if current.period_type is PeriodType.TRIAL else Cause.RENEWAL
    ends_at = period_end(subscription, product.duration, follows)
    period = next_period(subscription, cause, product.id, price, now, ends_at, moment)
    period = replace(period, paid_from=follows if follows < now else None)
    taken_over = replace(current, ends_at=now, as_of=moment) if current.ends_at > now else current
    return replace(subscription, periods=(*subscription.periods[:-1], taken_over, period), status=Status(as_of=moment))


def next_period(
    subscription: Subscription, cause: Cause, product_id: str, price: Price, now: Ms, ends_at: Ms, moment: Moment
) -> Period:
    current = subscription.current
    return Period(
        id=f"{subscription.id}.{current.number + 1}",
        number=current.number + 1,
        cause=cause,
        product_id=product_id,
        period_type=PeriodType.NORMAL,
        purchased_at=now,
        ends_at=ends_at,
        as_of=moment,
        price=price,
        changed_from=current.product_id if cause is Cause.CHANGE else None,
        country=current.country,
    )


def period_end(subscription: Subscription, length: Duration, start: Ms) -> Ms:
    """A subscription begun on the 31st is billed on the last day of shorter months and on the 31st of longer ones."""
    anchor = None
    moment = datetime.fromtimestamp(start // 1000, UTC)
    # The day on which a trial began does not matter: billing begins with the first payment.
    trial = subscription.current.period_type is PeriodType.TRIAL
    if not trial and moment.day == calendar.monthrange(moment.year, moment.month)[1]:
        first = next(
            (period for period in reversed(subscription.periods) if period.cause is not Cause.RENEWAL),
            subscription.current,
        )
        anchor = max(day_of_month(first.purchased_at), moment.day)
    return add(start, length, anchor_day=anchor)


def first_period(id: str, product: Product, now: Ms, *, trial: bool) -> Period:
    length = product.trial if trial else product.duration
    assert length is not None
    return Period(
        id=f"{id}.0",
        number=0,
        cause=Cause.TRIAL if trial else Cause.PURCHASE,
        product_id=product.id,
        period_type=PeriodType.TRIAL if trial else PeriodType.NORMAL,
        purchased_at=now,
        ends_at=add(now, length),
        as_of=Moment(now),
        price=Price(0, product.price.currency) if trial else product.price,
    )


def due_at(subscription: Subscription) -> Ms | None:
    """When this store next renews, or resumes after a pause, by itself."""
    status, current = subscription.status, subscription.current
    if subscription.store != STORE or not status.goes_on:
        return None
    if status.billing_issue_at is not None or current.refunded_at is not None:
        return None
    return max(status.pause.resumes_at, current.ends_at) if status.pause else current.ends_at


def pass_time(subscription: Subscription, catalog: Catalog, now: Ms) -> Subscription:
    """The next step that this store does by itself by `now`. Callers repeat it while something is due."""
    due = due_at(subscription)
    if due is None or due > now:
        return subscription
    return renewed(subscription, catalog, due, follows=due)
