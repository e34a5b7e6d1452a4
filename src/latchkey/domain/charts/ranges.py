"""Which days and months must be read to answer a question."""

from __future__ import annotations

from typing import NamedTuple

from latchkey.domain.charts.fact import Day, Question, Resolution, period_of

# Before all facts.
BEGINNING: Day = -(10**6)


class Range(NamedTuple):
    # Both included; of months: their first days.
    first: Day
    last: Day
    # Only levels are read here: flows before the question's first day do not count.
    levels: bool = False


class Ranges(NamedTuple):
    days: list[Range]
    months: list[Range]


def ranges_of(question: Question, today: Day, *, by_month: bool) -> Ranges:
    """`by_month`: there are sums by month, which are read where whole months are covered. The sums have no facts after
    today, so the month of today is covered by today."""
    first, last = question.first, min(question.last, today)
    if last < first:
        # Nothing but what was before, and not even all of that if the days asked for are in the future.
        return _before(last + 1, by_month=by_month)
    before = _before(first, by_month=by_month)
    if not by_month or question.resolution is not Resolution.MONTH:
        return _joined(before, Ranges([Range(first, last)], []))
    start = _month(first)
    whole = first if start == first else _month(start + 31)
    end = _month(last + 1) if last < today else _month(_month(last) + 31)
    if whole >= end:
        return _joined(before, Ranges([Range(first, last)], []))
    edges = [one for one in (Range(first, whole - 1), Range(end, last)) if one.first <= one.last]
    return _joined(before, Ranges(edges, [Range(whole, end - 1)]))


def _before(first: Day, *, by_month: bool) -> Ranges:
    """All days before this one."""
    if not by_month:
        return Ranges([Range(BEGINNING, first - 1, levels=True)], [])
    start = _month(first)
    days = [Range(start, first - 1, levels=True)] if start < first else []
    return Ranges(days, [Range(BEGINNING, start - 1, levels=True)])


def _joined(one: Ranges, other: Ranges) -> Ranges:
    return Ranges(one.days + other.days, one.months + other.months)


def _month(day: Day) -> Day:
    return period_of(day, Resolution.MONTH)
