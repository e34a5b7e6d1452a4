"""Facts about free trials."""

from __future__ import annotations

from collections.abc import Sequence

from latchkey.domain.charts.fact import NO_MONEY, Kind
from latchkey.domain.charts.facts.dimensions import SubscriptionDimensions
from latchkey.domain.charts.facts.segments import PAID, Segment
from latchkey.domain.charts.facts.subject import FactBook
from latchkey.domain.purchases.subscription import Period, PeriodType, Subscription

# What became of a trial.
RUNNING, CONVERTED, LOST, REFUNDED = 0, 1, 2, 3


def add_trials(
    book: FactBook, subscription: Subscription, counted: Sequence[Segment], dimensions: SubscriptionDimensions
) -> None:
    periods = subscription.periods
    for place, trial in enumerate(periods):
        if trial.period_type is not PeriodType.TRIAL:
            continue
        following = periods[place + 1] if place + 1 < len(periods) else None
        fate = _fate(subscription, following)
        of = dimensions.of(trial)
        # A trial that was converted early ends there, even if that payment is refunded while the trial would still run.
        ran = next((one for one in counted if one.period is trial), None)
        start, end = (trial.starts_at, trial.starts_at) if ran is None else (ran.start, ran.end)
        if ran is not None:
            book.add(Kind.TRIAL, start, 0, "", 1, NO_MONEY, of)
            book.add(Kind.TRIAL, end, 0, "", -1, NO_MONEY, of)
        book.add(Kind.TRIAL_STARTED, start, fate, "", 1, NO_MONEY, of)
        book.add(Kind.TRIAL_ENDED, end, CONVERTED if fate in (CONVERTED, REFUNDED) else LOST, "", 1, NO_MONEY, of)


def _fate(subscription: Subscription, following: Period | None) -> int:
    """Only the payment that follows the trial converts it."""
    if following is not None and following.period_type in PAID:
        return CONVERTED if following.refunded_at is None else REFUNDED
    over = following is not None or subscription.expired is not None or subscription.cut_short
    return LOST if over else RUNNING
