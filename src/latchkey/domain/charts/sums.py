"""Sums of facts: what a chart asks for, and what it gets.

The storage answers a `Question` with sums, as columns (`runs.py`). Charts are computed from these by pure functions.
"""

from __future__ import annotations

from datetime import date
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from latchkey.domain.charts.fact import NO_MONEY, Kind, Money
from latchkey.domain.purchases.terms import USD

# Days since 1970-01-01, UTC.
Day: TypeAlias = int

_EPOCH = date(1970, 1, 1).toordinal()


class Resolution(StrEnum):
    DAY = "day"
    # Sunday to Saturday.
    WEEK = "week"
    MONTH = "month"


def day_of(when: date) -> Day:
    return when.toordinal() - _EPOCH


def date_of(day: Day) -> date:
    return date.fromordinal(day + _EPOCH)


def period_of(day: Day, resolution: Resolution) -> Day:
    """The first day of the period that a day belongs to."""
    match resolution:
        case Resolution.DAY:
            return day
        case Resolution.WEEK:
            # 1970-01-01 was a Thursday.
            return day - (day + 4) % 7
        case Resolution.MONTH:
            return day_of(date_of(day).replace(day=1))


# The segment of everything that is in no segment of its own. No value of a dimension has this character.
REST = "\0"


class Filter(NamedTuple):
    """Facts with one of these values. `dimension` is a field of `Dimensions`, or "experiment:<id>" with variants as
    values, or "attribute:<name>". The value "" is "not known"."""

    dimension: str
    values: tuple[str, ...]


class Amounts(StrEnum):
    """Which amounts are wanted. The fewer, the fewer sums there are, and the quicker they are read."""

    # By currency.
    ALL = "all"
    # In USD. The currency of sums is USD; facts without an exchange rate keep their own, facts without money have none.
    USD = "usd"
    # The same without tax and commission.
    GROSS_USD = "gross_usd"
    # Those in `Question.currency` as they were paid, all others in USD as above. The fields for USD have the same
    # amounts as the fields beside them.
    DISPLAY = "display"
    # No money, and no currencies.
    NONE = "none"


class Question(NamedTuple):
    # PRODUCTION, SANDBOX, or the id of a test clock.
    environment: str
    kinds: tuple[Kind, ...]
    # Both included. Facts after now are never counted, whatever the last day is; neither are those of later today.
    first: Day
    last: Day
    resolution: Resolution
    # All of them must match.
    filters: tuple[Filter, ...] = ()
    # The dimension to break down by, named as in `Filter`.
    segment: str | None = None
    # The segments that are wanted one by one. All others together are the segment REST. None: all are.
    largest: tuple[str, ...] | None = None
    amounts: Amounts = Amounts.ALL
    # Kinds whose facts are added up whatever their n, as n 0. With a number: only those whose n is at most that.
    any_n: tuple[tuple[Kind, int | None], ...] = ()
    # Of `Amounts.DISPLAY`.
    currency: str = USD


class Sum(NamedTuple):
    kind: Kind
    n: int
    # The first day of the period, which may lie before `Question.first`. None: everything before `Question.first`; such
    # rows exist for levels only.
    period: Day | None
    # The value of the dimension asked for; "" without one.
    segment: str
    currency: str
    quantity: int
    money: Money = NO_MONEY
