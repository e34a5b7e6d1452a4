"""The periods of a chart, which of them are complete, and the period that it is compared with."""

from __future__ import annotations

import calendar
from collections.abc import Iterator
from datetime import date, timedelta

from latchkey.domain.instants import DAY, Ms
from latchkey.subjects.charts.rules.chart import ChartRequest, Period
from latchkey.subjects.charts.rules.definition import WINDOWS, Definition
from latchkey.subjects.charts.rules.facts import LIFETIMES, Day, Resolution, date_of, day_of, period_of


def today_of(now: Ms) -> Day:
    return now // DAY


def periods_of(definition: Definition, request: ChartRequest, now: Ms) -> tuple[Period, ...]:
    """Oldest first, none after today. A period is complete when it has ended, the dates asked for do not cut it, and
    customers first seen in it have had the time that the chart gives them."""
    today = today_of(now)
    window = window_of(request)
    asked, latest = day_of(request.first), min(day_of(request.last), today)
    found: list[Period] = []
    for start, end in _spans(asked, latest, request.resolution):
        first, last = max(start, asked), min(end, latest)
        whole = last == end and (first == start or definition.is_level)
        if definition.is_of_first_seen:
            whole = whole and window is not None and last + window < today
        found.append(Period(date_of(first), date_of(last), _label(start, request.resolution), whole and last < today))
    return tuple(found)


def window_place(request: ChartRequest) -> int:
    """The place of the chosen lifetime in LIFETIMES; the last one if the chart has no such choice."""
    chosen = request.selectors.get("conversion_timeframe") or request.selectors.get("customer_lifetime")
    ids = [one.id for one in WINDOWS]
    return ids.index(chosen) if chosen in ids else len(ids) - 1


def window_of(request: ChartRequest) -> int | None:
    """The chosen lifetime in days; None has no end."""
    return LIFETIMES[window_place(request)]


def index_of(periods: tuple[Period, ...], resolution: Resolution) -> dict[Day, int]:
    """The place of the period that begins on a day (its own first day, whether cut or not)."""
    return {period_of(day_of(one.first), resolution): place for place, one in enumerate(periods)}


def preceding(first: date, last: date, resolution: Resolution) -> tuple[date, date]:
    """The nearest dates before `first` that have as many periods: moved back by whole days, weeks or months."""
    match resolution:
        case Resolution.DAY:
            step = last - first + timedelta(days=1)
        case Resolution.WEEK:
            step = timedelta(days=7 * -(-((last - first).days + 1) // 7))
        case Resolution.MONTH:
            months = 1
            while _months_before(last, months) >= first:
                months += 1
            return _months_before(first, months), _months_before(last, months)
    return first - step, last - step


def _months_before(when: date, months: int) -> date:
    """The last day of a month stays the last day of a month."""
    year, month = divmod(when.year * 12 + when.month - 1 - months, 12)
    length = calendar.monthrange(year, month + 1)[1]
    is_last = when.day == calendar.monthrange(when.year, when.month)[1]
    return date(year, month + 1, length if is_last else min(when.day, length))


def _spans(first: Day, last: Day, resolution: Resolution) -> Iterator[tuple[Day, Day]]:
    """First and last day of the whole periods that these days touch."""
    start = period_of(first, resolution)
    while start <= last:
        match resolution:
            case Resolution.DAY:
                following = start + 1
            case Resolution.WEEK:
                following = start + 7
            case Resolution.MONTH:
                following = period_of(start + 31, resolution)
        yield start, following - 1
        start = following


def _label(start: Day, resolution: Resolution) -> str:
    label = date_of(start).isoformat()
    return label[:7] if resolution is Resolution.MONTH else label
