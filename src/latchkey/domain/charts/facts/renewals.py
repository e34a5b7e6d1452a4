"""Facts about what follows a paid period: renewals that were due, how many periods a subscription is kept, and failed
payments."""

from __future__ import annotations

from collections.abc import Sequence

from latchkey.domain.catalog import Catalog
from latchkey.domain.charts.amounts import currency_of, money_of
from latchkey.domain.charts.fact import NO_MONEY, Kind
from latchkey.domain.charts.facts.dimensions import SubscriptionDimensions
from latchkey.domain.charts.facts.segments import PAID
from latchkey.domain.charts.facts.subject import FactBook, Issue
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.subscription import Cause, Period, PeriodType, Subscription

# Renewals with a higher number are counted with this one.
MOST_RENEWALS = 12

# Prepaid time is bought again, not renewed.
_RENEWING = (PeriodType.NORMAL, PeriodType.INTRO)

# What became of a failed payment.
OPEN, RECOVERED, RECOVERED_LATER, LOST = 0, 1, 2, 3


def add_renewals(book: FactBook, subscription: Subscription, dimensions: SubscriptionDimensions) -> None:
    """RENEWAL_DUE, RENEWED, RETAINED and RETAINED_SOON. Renewals are numbered, and cohorts begin anew, after a gap and
    where the product changes."""
    periods = subscription.periods
    last = len(periods) - 1
    # Periods of the same product without a gap before this one, and how many of them were no introductory periods.
    number = standard = 0
    cohort: Period | None = None
    for place, period in enumerate(periods):
        if period.period_type not in _RENEWING:
            number, standard, cohort = 0, 0, None
            continue
        of = dimensions.of(period)
        following = periods[place + 1] if place < last else None
        if following is not None and not _follows(period, following):
            following = None
        # A renewal is due where paid time ends by itself: not after a refund, and not where another product took its
        # place at once.
        if not (period.money_back and period.cut_short) and not (following and following.cause is Cause.CHANGE):
            n = min(number + 1, MOST_RENEWALS)
            book.add(Kind.RENEWAL_DUE, period.ends_at, n, "", 1, NO_MONEY, of)
            if following is not None:
                book.add(Kind.RENEWED, period.ends_at, n, "", 1, NO_MONEY, of)
        number += 1
        if period.period_type is PeriodType.NORMAL:
            cohort = cohort or period
            _add_retained(book, subscription, period, cohort, standard, dimensions)
            standard += 1
        if following is None or following.product_id != period.product_id:
            number, standard, cohort = 0, 0, None


def _follows(period: Period, following: Period) -> bool:
    """A payment that was made good within the grace period counts from the end of the paid time, so it leaves no
    gap."""
    return following.period_type in PAID and following.starts_at <= period.access_ends_at


def _add_retained(
    book: FactBook,
    subscription: Subscription,
    period: Period,
    cohort: Period,
    number: int,
    dimensions: SubscriptionDimensions,
) -> None:
    of = dimensions.of(cohort)
    # The cohort keeps its size, whatever is refunded.
    if not number or not period.money_back or period.refunded_at is None:
        book.add(Kind.RETAINED, cohort.purchased_at, number, "", 1, NO_MONEY, of)
    if period is subscription.current and _renews(subscription):
        book.add(Kind.RETAINED_SOON, cohort.purchased_at, number + 1, "", 1, NO_MONEY, of)


def _renews(subscription: Subscription) -> bool:
    running = subscription.expired is None and subscription.current.refunded_at is None
    return running and subscription.status.goes_on and subscription.status.pause is None


def graces_of(issues: Sequence[Issue]) -> dict[str, Ms]:
    """By transaction: until when the store kept access open."""
    found: dict[str, Ms] = {}
    for _, id, grace_ends_at in issues:
        if grace_ends_at is not None:
            found[id] = max(grace_ends_at, found.get(id, 0))
    return found


def add_issues(
    book: FactBook,
    subscription: Subscription,
    issues: Sequence[Issue],
    catalog: Catalog,
    dimensions: SubscriptionDimensions,
) -> None:
    """One for each renewal that failed, however often the store tried."""
    first: dict[str, Ms] = {}
    for at, id, _ in issues:
        first[id] = min(at, first.get(id, at))
    periods = subscription.periods
    for id, at in first.items():
        place = next((place for place, one in enumerate(periods) if one.id == id), None)
        if place is None:
            continue
        period = periods[place]
        following = next((one for one in periods[place + 1 :] if one.period_type in PAID), None)
        wanted = period if following is None else following
        price, terms = wanted.price, wanted.terms
        if not price.micros and following is None:
            # A trial: what was to be paid is the product's price.
            product = catalog.find(period.product_id)
            price = product.price if product is not None and product.price.currency == price.currency else price
        money = money_of(price.micros, price, terms)
        n = _outcome(subscription, period, following)
        book.add(Kind.BILLING_ISSUE, at, n, currency_of(price), 1, money, dimensions.of(period))


def _outcome(subscription: Subscription, period: Period, following: Period | None) -> int:
    if following is not None:
        return RECOVERED if following.starts_at <= period.access_ends_at else RECOVERED_LATER
    if subscription.expired is not None or subscription.cut_short:
        return LOST
    return OPEN if subscription.status.billing_issue_at is not None else RECOVERED
