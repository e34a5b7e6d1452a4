"""Facts about subscriptions that run: how many, their monthly revenue, and what moves both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from latchkey.domain.charts.amounts import currency_of, growth, monthly_money, same_terms
from latchkey.domain.charts.fact import MOVED, Dimensions, Kind, Money, minus, negative
from latchkey.domain.charts.facts.dimensions import SubscriptionDimensions
from latchkey.domain.charts.facts.segments import PAID, Segment, Stretch, returns, stretches
from latchkey.domain.charts.facts.subject import FactBook, SubjectKey
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.subscription import Cause, Period, PeriodType, Subscription

# n of NEW and RETURN.
DIRECT, INTRODUCTORY, CONVERTED = 0, 1, 2


class Level(NamedTuple):
    """What a running subscription is counted as."""

    currency: str
    money: Money
    dimensions: Dimensions


class Levels:
    """The level of each paid period of a subscription."""

    __slots__ = ("_dimensions", "_last", "_level", "_periods")

    def __init__(self, subscription: Subscription, dimensions: SubscriptionDimensions) -> None:
        self._dimensions = dimensions
        self._periods = subscription.periods
        self._last: Period | None = None
        self._level: Level | None = None

    def of(self, period: Period) -> Level:
        last, level = self._last, self._level
        if period is last and level is not None:
            return level
        of = self._dimensions.of(period)
        self._last = period
        if (
            last is not None
            and level is not None
            and level.dimensions is of
            and last.period_type is period.period_type is PeriodType.NORMAL
            and same_terms(last, period)
        ):
            return level
        length = self._dimensions.length(period, self._following(period))
        self._level = Level(currency_of(period.price), monthly_money(period.price, period.terms, length), of)
        return self._level

    def _following(self, period: Period) -> Period | None:
        if period.period_type is not PeriodType.INTRO:
            return None
        place = self._periods.index(period) + 1
        return self._periods[place] if place < len(self._periods) else None


class Run(NamedTuple):
    """Paid time without a gap, where its facts go, and what it began with."""

    stretch: Stretch
    book: FactBook
    levels: Levels
    n: int


def add_active(
    book: FactBook, key: SubjectKey, subscription: Subscription, counted: Sequence[Segment], levels: Levels
) -> list[Run]:
    """ACTIVE, EXPANSION, CONTRACTION and CHURN. The beginnings of all subscriptions of a customer are told apart
    together, by `add_beginnings`."""
    end: Ms | None = None
    level: Level | None = None
    for segment in counted:
        if segment.period.period_type not in PAID:
            continue
        before, level = level, levels.of(segment.period)
        if before is None or end != segment.start:
            if before is not None and end is not None:
                _add_end(book, end, before)
            book.add(Kind.ACTIVE, segment.start, 0, level.currency, 1, level.money, level.dimensions)
        elif before is not level and before != level:
            _add_change(book, segment.start, before, level)
        end = segment.end
    if level is not None and end is not None:
        _add_end(book, end, level)
    return [Run(one, book, levels, _began_with(subscription, one.first)) for one in stretches(key, counted)]


def add_beginnings(runs: Sequence[Run]) -> None:
    """NEW and RETURN, for one customer in one environment."""
    back = {one[:2] for one in returns([one.stretch for one in runs])} if len(runs) > 1 else ()
    for stretch, book, levels, n in runs:
        level = levels.of(stretch.first)
        kind = Kind.RETURN if stretch[:2] in back else Kind.NEW
        book.add(kind, stretch.start, n, level.currency, 1, level.money, level.dimensions)


def _add_end(book: FactBook, at: Ms, level: Level) -> None:
    book.add(Kind.ACTIVE, at, 0, level.currency, -1, negative(level.money), level.dimensions)
    book.add(Kind.CHURN, at, 0, level.currency, 1, level.money, level.dimensions)


def _add_change(book: FactBook, at: Ms, old: Level, new: Level) -> None:
    """Another price or product without a gap. What both amounts have in common moves from the old product to the new
    one. What is more is EXPANSION of the new product, what is less is CONTRACTION of the old one."""
    if old.currency != new.currency:
        book.add(Kind.ACTIVE, at, 0, old.currency, -1, negative(old.money), old.dimensions)
        book.add(Kind.ACTIVE, at, 0, new.currency, 1, new.money, new.dimensions)
        book.add(Kind.CONTRACTION, at, 0, old.currency, 1, old.money, old.dimensions)
        book.add(Kind.EXPANSION, at, 0, new.currency, 1, new.money, new.dimensions)
        return
    currency = new.currency
    difference = minus(new.money, old.money)
    more, less = growth(difference), growth(negative(difference))
    if old.dimensions == new.dimensions:
        book.add(Kind.ACTIVE, at, 0, currency, 0, difference, new.dimensions)
    else:
        book.add(Kind.ACTIVE, at, 0, currency, -1, negative(old.money), old.dimensions)
        book.add(Kind.ACTIVE, at, 0, currency, 1, new.money, new.dimensions)
        kept = minus(new.money, more)
        book.add(Kind.EXPANSION, at, MOVED, currency, -1, negative(kept), old.dimensions)
        book.add(Kind.EXPANSION, at, MOVED, currency, 1, kept, new.dimensions)
    book.add(Kind.EXPANSION, at, 0, currency, 0, more, new.dimensions)
    book.add(Kind.CONTRACTION, at, 0, currency, 0, less, old.dimensions)


def _began_with(subscription: Subscription, first: Period) -> int:
    periods = subscription.periods
    place = periods.index(first)
    if first.cause is Cause.CONVERSION or (place and periods[place - 1].period_type is PeriodType.TRIAL):
        return CONVERTED
    return INTRODUCTORY if first.period_type is PeriodType.INTRO else DIRECT
