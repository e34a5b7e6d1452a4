"""When which period of a subscription counts, and which paid time belongs together.

1. `segments` says when which period counts. Periods may overlap; then the later one counts.
2. `stretches` joins paid segments without a gap between them.
3. `returns` finds the stretches with which a customer came back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from latchkey.domain.instants import Ms
from latchkey.domain.purchases.subscription import Period, PeriodType, Subscription

PurchaseKey: TypeAlias = tuple[str, str]

NO_GRACES: Mapping[str, Ms] = {}

PAID = frozenset({PeriodType.NORMAL, PeriodType.INTRO, PeriodType.PREPAID})


class Segment(NamedTuple):
    """A stretch of time in which one period counts: where two overlap, the later one."""

    start: Ms
    end: Ms
    period: Period


class Stretch(NamedTuple):
    """Paid time without a gap, however often it was renewed or changed."""

    start: Ms
    key: PurchaseKey
    end: Ms
    first: Period
    last: Period


def segments(subscription: Subscription, graces: Mapping[str, Ms] = NO_GRACES) -> list[Segment]:
    """When which period counts, oldest first. `graces`: until when the store kept access open after a period that
    others followed. A subscription knows it of its newest period only."""
    periods = subscription.periods
    if len(periods) == 1:
        only = periods[0]
        start, end = only.starts_at, subscription.access_ends_at
        return [Segment(start, end, only)] if start < end else []
    return _in_a_row(subscription, graces) or _overlapping(subscription, graces)


def as_seen(found: list[Segment]) -> list[Segment]:
    """The same as it was seen when it happened: a payment that was made good within the grace period belongs to the
    period before it until it was made. So days that have passed do not change."""
    if not any(one.period.paid_from is not None for one in found):
        return found
    result: list[Segment] = []
    for one in found:
        start, end, period = one
        last = result[-1] if result else None
        if last is not None and last.end == start < period.purchased_at < end:
            result[-1] = Segment(last.start, period.purchased_at, last.period)
            one = Segment(period.purchased_at, end, period)
        result.append(one)
    return result


def _end(subscription: Subscription, place: int, graces: Mapping[str, Ms]) -> Ms:
    periods = subscription.periods
    if place == len(periods) - 1:
        return subscription.access_ends_at
    period = periods[place]
    end = period.access_ends_at
    if graces and end == period.ends_at and period.id in graces:
        # The next period ends the grace period.
        return max(end, min(graces[period.id], periods[place + 1].purchased_at))
    return end


def _in_a_row(subscription: Subscription, graces: Mapping[str, Ms]) -> list[Segment] | None:
    """The usual case: no two periods overlap. None if two do."""
    found: list[Segment] = []
    last: Ms | None = None
    for place, period in enumerate(subscription.periods):
        start, end = period.starts_at, _end(subscription, place, graces)
        if last is not None and start < last:
            return None
        if start < end:
            found.append(Segment(start, end, period))
            last = end
    return found


def _overlapping(subscription: Subscription, graces: Mapping[str, Ms]) -> list[Segment]:
    found: list[Segment] = []
    # What later periods cover, in order of time.
    covered: list[tuple[Ms, Ms]] = []
    for place in reversed(range(len(subscription.periods))):
        period = subscription.periods[place]
        start, end = period.starts_at, _end(subscription, place, graces)
        at = start
        for taken_from, taken_until in covered:
            if taken_from >= end:
                break
            if taken_from > at:
                found.append(Segment(at, taken_from, period))
            at = max(at, taken_until)
        if at < end:
            found.append(Segment(at, end, period))
        if start < end:
            covered = _with(covered, start, end)
    return sorted(found, key=lambda one: one.start)


def _with(covered: list[tuple[Ms, Ms]], start: Ms, end: Ms) -> list[tuple[Ms, Ms]]:
    """The same with one more, which begins before or with all of them."""
    rest = 0
    while rest < len(covered) and covered[rest][0] <= end:
        start, end = min(start, covered[rest][0]), max(end, covered[rest][1])
        rest += 1
    return [(start, end), *covered[rest:]]


def stretches(key: PurchaseKey, counted: Iterable[Segment]) -> Iterator[Stretch]:
    running: Stretch | None = None
    for start, end, period in counted:
        if period.period_type not in PAID:
            continue
        if running is not None and running.end == start:
            running = Stretch(running.start, key, end, running.first, period)
        else:
            if running is not None:
                yield running
            running = Stretch(start, key, end, period, period)
    if running is not None:
        yield running


def returns(found: list[Stretch]) -> Iterator[Stretch]:
    """Those with which one customer came back: each makes good for one that had ended before."""
    if len(found) < 2:
        return
    ends = sorted(one.end for one in found)
    passed = made_good = 0
    for stretch in sorted(found, key=lambda one: one[:3]):
        while passed < len(ends) and ends[passed] <= stretch.start:
            passed += 1
        if passed > made_good:
            made_good += 1
            yield stretch
