"""Facts about what follows a paid period: renewals that were due, how many periods a subscription is kept, and failed
payments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from latchkey.domain.catalog import Catalog
from latchkey.domain.charts.amounts import currency_of, money_of
from latchkey.domain.charts.dimensions import SubscriptionDimensions
from latchkey.domain.charts.fact import NO_MONEY, Kind
from latchkey.domain.charts.segments import PAID
from latchkey.domain.charts.subject import FactBook, Issue
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.subscription import Cause, Period, PeriodType, Subscription

# Renewals with a higher number are counted with this one.
MOST_RENEWALS = 12

# Prepaid time is bought again, not renewed.
_RENEWING = (PeriodType.NORMAL, PeriodType.INTRO)

# What became of a failed payment.
OPEN, RECOVERED, RECOVERED_LATER, LOST = 0, 1, 2, 3


class Link(NamedTuple):
    """A paid period, and the paid period that follows it without a gap, if any."""

    period: Period
    following: Period | None
    # How many periods of the same product came before it without a gap.
    number: int
    # The same without introductory periods. None in an introductory period.
    standard: int | None


def links(subscription: Subscription) -> Iterator[Link]:
    periods = subscription.periods
    number, standard, joined = 0, 0, False
    last = len(periods) - 1
    for place, period in enumerate(periods):
        if period.period_type not in _RENEWING:
            joined = False
            continue
        number, standard = (number, standard) if joined else (0, 0)
        following = periods[place + 1] if place < last else None
        if following is not None and not _follows(period, following):
            following = None
        is_standard = period.period_type is PeriodType.NORMAL
        yield Link(period, following, number, standard if is_standard else None)
        number, standard = number + 1, standard + is_standard
        joined = following is not None and following.product_id == period.product_id


def _follows(period: Period, following: Period) -> bool:
    """A payment that was made good within the grace period counts from the end of the paid time, so it leaves no
    gap."""
    return following.period_type in PAID and following.starts_at <= period.access_ends_at


def add_renewals(book: FactBook, found: Sequence[Link], dimensions: SubscriptionDimensions) -> None:
    """A renewal is due where paid time ends by itself: not after a refund, and not where another product took its place
    at once."""
    for period, following, number, _ in found:
        if period.cut_short or (following is not None and following.cause is Cause.CHANGE):
            continue
        of, n = dimensions.of(period), min(number + 1, MOST_RENEWALS)
        book.add(Kind.RENEWAL_DUE, period.ends_at, n, "", 1, NO_MONEY, of)
        if following is not None:
            book.add(Kind.RENEWED, period.ends_at, n, "", 1, NO_MONEY, of)


def add_retained(
    book: FactBook, subscription: Subscription, found: Sequence[Link], dimensions: SubscriptionDimensions
) -> None:
    """The cohort of each product begins with its first standard period. Who comes back after a gap, or changes the
    product, begins another one."""
    cohort: Period | None = None
    for period, _, _, standard in found:
        if standard is None:
            continue
        if cohort is None or not standard:
            cohort = period
        # The cohort keeps its size, whatever is refunded.
        if not standard or period.refunded_at is None:
            book.add(Kind.RETAINED, cohort.starts_at, standard, "", 1, NO_MONEY, dimensions.of(cohort))
        if period is subscription.current and _renews(subscription):
            book.add(Kind.RETAINED_SOON, cohort.starts_at, standard + 1, "", 1, NO_MONEY, dimensions.of(cohort))


def _renews(subscription: Subscription) -> bool:
    running = subscription.expired is None and subscription.current.refunded_at is None
    return running and subscription.status.goes_on and subscription.status.pause is None


def add_issues(
    book: FactBook,
    subscription: Subscription,
    issues: Sequence[Issue],
    catalog: Catalog,
    dimensions: SubscriptionDimensions,
) -> None:
    """One for each renewal that failed, however often the store tried."""
    first: dict[str, Ms] = {}
    for at, id in issues:
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
