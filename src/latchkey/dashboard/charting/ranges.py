"""Ranges of dates that have a name. Days are UTC."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

from latchkey.domain.charts.definitions.definition import Definition, Drawing, Unit
from latchkey.domain.charts.fact import Resolution
from latchkey.domain.instants import Ms

Range = tuple[date, date]
# Any two dates, from the fields beside it.
DATES = "dates"
RANGES = {
    "7d": "Last 7 days",
    "28d": "Last 28 days",
    "90d": "Last 90 days",
    "12m": "Last 12 months",
    "24m": "Last 24 months",
    "month": "This month",
    "last_month": "Last month",
    "year": "This year",
    "last_year": "Last year",
    DATES: "These dates",
}
LONGEST = timedelta(days=20 * 366)
# A longer range is shown by week even if days were asked for: nobody reads more rows than this.
MOST_DAYS = 3 * 366
EARLIEST = date(2000, 1, 1)


def today(now: Ms) -> date:
    return datetime.fromtimestamp(now / 1000, UTC).date()


def dates_of(name: str, day: date) -> Range:
    """The dates of a named range, both included. `day` is today."""
    return _RANGES[name](day)


def usual_resolution(span: Range, *, jumps: bool = False) -> Resolution:
    """So that a picture has neither two points nor four hundred. `jumps`: its days say little, see `jumps_by_day`."""
    days = (span[1] - span[0]).days + 1
    return Resolution.DAY if days <= (28 if jumps else 92) else Resolution.WEEK if days <= 190 else Resolution.MONTH


def jumps_by_day(definition: Definition) -> bool:
    """Shares of one day's few renewals, and movements with as much above zero as below it, are a saw by day."""
    moves = definition.drawing is Drawing.STACKED_BARS and not definition.segments
    return moves or definition.unit is Unit.SHARE


def _months_back(day: date, months: int) -> date:
    place = day.year * 12 + day.month - 1 - months
    return date(place // 12, place % 12 + 1, 1)


def _days(count: int) -> Callable[[date], Range]:
    return lambda day: (day - timedelta(days=count - 1), day)


_RANGES: dict[str, Callable[[date], Range]] = {
    "7d": _days(7),
    "28d": _days(28),
    "90d": _days(90),
    # Whole months and the one that runs.
    "12m": lambda day: (_months_back(day, 11), day),
    "24m": lambda day: (_months_back(day, 23), day),
    "month": lambda day: (day.replace(day=1), day),
    "last_month": lambda day: (_months_back(day, 1), day.replace(day=1) - timedelta(days=1)),
    "year": lambda day: (date(day.year, 1, 1), day),
    "last_year": lambda day: (date(day.year - 1, 1, 1), date(day.year - 1, 12, 31)),
}
