"""Facts about what becomes of running subscriptions, as things stand now."""

from __future__ import annotations

from collections.abc import Sequence

from latchkey.domain.charts.fact import NO_MONEY, Kind, negative
from latchkey.domain.charts.facts.dimensions import SubscriptionDimensions
from latchkey.domain.charts.facts.running import Levels
from latchkey.domain.charts.facts.segments import PAID, Segment
from latchkey.domain.charts.facts.subject import FactBook
from latchkey.domain.purchases.subscription import PeriodType, Subscription

RENEWS, ENDS, FAILED = 0, 1, 2
# Added for trials.
_TRIAL = 3


def add_status(
    book: FactBook,
    subscription: Subscription,
    counted: Sequence[Segment],
    levels: Levels,
    dimensions: SubscriptionDimensions,
) -> None:
    """From the newest period on: at every later moment the sum is the number of subscriptions that run then."""
    current, status = subscription.current, subscription.status
    since = min(current.starts_at, status.as_of.at)
    failed = status.billing_issue_at is not None
    goes_on = status.goes_on and current.refunded_at is None
    paid_for = ENDS if not goes_on else FAILED if failed else RENEWS
    beyond = FAILED if failed else paid_for
    for start, end, period in counted:
        if end <= since:
            continue
        if period is current and start < current.ends_at < end and paid_for != beyond:
            _add(book, Segment(start, current.ends_at, period), paid_for, levels, dimensions)
            _add(book, Segment(current.ends_at, end, period), beyond, levels, dimensions)
        else:
            _add(book, Segment(start, end, period), paid_for, levels, dimensions)


def _add(book: FactBook, segment: Segment, standing: int, levels: Levels, dimensions: SubscriptionDimensions) -> None:
    start, end, period = segment
    if period.period_type in PAID:
        currency, money, of = levels.of(period)
        book.add(Kind.STATUS, start, standing, currency, 1, money, of)
        book.add(Kind.STATUS, end, standing, currency, -1, negative(money), of)
    elif period.period_type is PeriodType.TRIAL:
        of = dimensions.of(period)
        book.add(Kind.STATUS, start, standing + _TRIAL, "", 1, NO_MONEY, of)
        book.add(Kind.STATUS, end, standing + _TRIAL, "", -1, NO_MONEY, of)
