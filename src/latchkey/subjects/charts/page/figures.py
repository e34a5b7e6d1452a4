"""Values of charts and of dimensions as text: in full for tables, short for axes."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from functools import cache

from latchkey.dashboard import texts
from latchkey.domain import formats as texts_formats
from latchkey.subjects.charts.rules.chart import ChartData, ChartPeriod, Series, Value
from latchkey.subjects.charts.rules.definition import CHOICES, Unit
from latchkey.subjects.charts.rules.facts import Resolution
from latchkey.subjects.money.usecases import TITLES

_DAYS_OF_A_YEAR = 366
# From here on "12 times" is easier to read than "1,100 %".
_TIMES = 10
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def full(value: Value, unit: Unit, currency: str | None) -> str:
    if value is None:
        return "–"
    match unit:
        case Unit.MONEY:
            return texts_formats.money(value, currency)
        case Unit.SHARE:
            return texts.percent(value).replace("-", "−")
        case Unit.COUNT:
            return texts.number(value).replace("-", "−")


def drawn_in_full(number: float, unit: Unit, currency: str | None) -> str:
    """A drawn number in full."""
    micros = number * 1_000_000 if unit is Unit.MONEY else number / 100 if unit is Unit.SHARE else number
    return full(micros, unit, currency)


def number_of(value: Value, unit: Unit) -> float | None:
    """As it is drawn: money in units of its currency, shares in percent."""
    if value is None:
        return None
    return value / 1_000_000 if unit is Unit.MONEY else value * 100 if unit is Unit.SHARE else value


def axis(value: float, unit: Unit, currency: str | None) -> str:
    """A drawn number, short: $12.5k, 40 %, −3."""
    minus, amount = ("−" if value < 0 else ""), abs(value)
    letter = ""
    for size, name in ((1_000_000_000, "bn"), (1_000_000, "M"), (1_000, "k")):
        if amount >= size:
            amount, letter = amount / size, name
            break
    text = f"{amount:,.0f}" if float(round(amount, 6)).is_integer() else f"{amount:,.2f}".rstrip("0").rstrip(".")
    if unit is Unit.SHARE:
        return f"{minus}{text} %"
    sign = _sign(currency) if unit is Unit.MONEY else ""
    return f"{minus}{sign}{text}{letter}"


def period(one: ChartPeriod, resolution: Resolution) -> str:
    """In full, for tables and tooltips."""
    return f"Week of {one.label}" if resolution is Resolution.WEEK else one.label


def ticks(periods: Sequence[ChartPeriod], resolution: Resolution) -> list[str]:
    """Short, for the axis. Over more than a year a day of the month would not say which year it is in."""
    with_year = bool(periods) and (periods[-1].last - periods[0].first).days > _DAYS_OF_A_YEAR
    return [_tick(period, is_month=with_year or resolution is Resolution.MONTH) for period in periods]


def _tick(one: ChartPeriod, *, is_month: bool) -> str:
    day = date.fromisoformat(f"{one.label}-01" if len(one.label) == 7 else one.label)
    month = _MONTHS[day.month - 1]
    return f"{month} {day.year}" if is_month else f"{day.day} {month}"


def change(
    value: Value, before: Value, unit: Unit, currency: str | None, *, falling_is_good: bool = False
) -> tuple[str, str]:
    """The change since the period before, and whether that is good ("up"), bad ("down") or neither ("")."""
    if value is None or before is None:
        return ("no value yet" if value is None else "no earlier value"), ""
    moved = value - before
    if not moved:
        return "no change", ""
    kind = "up" if (moved > 0) != falling_is_good else "down"
    arrow = "▲" if moved > 0 else "▼"
    if unit is Unit.SHARE:
        return f"{arrow} {abs(moved) * 100:.1f} points", kind
    if not before:
        return f"{arrow} from 0", kind
    if value * before < 0:
        # From a loss to a gain, or back: a percentage of the one would say nothing about the other.
        return f"{arrow} {full(abs(moved), unit, currency)}", kind
    if abs(value) > _TIMES * abs(before):
        return f"{arrow} {value / before:,.0f} times", kind
    return f"{arrow} {abs(moved) / abs(before) * 100:,.0f} %", kind


@cache
def _sign(currency: str | None) -> str:
    """What stands before an amount: "$", or nothing for currencies that stand behind it."""
    found = re.match(r"\D*", texts_formats.money(1_000_000, currency))
    return found.group() if found else ""


NOT_KNOWN = "Not known"
_DURATIONS = {one.id: one.title for one in CHOICES["durations"]}


def value_title(dimension: str, value: str) -> str:
    if not value:
        return NOT_KNOWN
    match dimension:
        case "store":
            return TITLES.get(value, value)
        case "duration":
            return _DURATIONS.get(value, value)
        case _:
            return value


def titled(data: ChartData) -> ChartData:
    """The same chart with stores and durations by their names."""
    if data.request.segment not in ("store", "duration"):
        return data
    previous = data.previous
    if previous is not None:
        previous = replace(previous, series=tuple(_titled(data.request.segment, one) for one in previous.series))
    series = tuple(_titled(data.request.segment, series) for series in data.series)
    return replace(data, series=series, previous=previous)


def _titled(dimension: str, one: Series) -> Series:
    if not one.segment or one.is_other:
        return one
    name, colon, measure = one.title.partition(": ")
    return replace(one, title=value_title(dimension, one.segment) + colon + measure) if name == one.segment else one
