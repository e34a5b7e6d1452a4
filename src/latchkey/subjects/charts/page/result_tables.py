"""A heat map as its page shows it: rows of cohorts, columns of later periods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from latchkey.dashboard import texts
from latchkey.dashboard.drawing.ranks import Interval, intervals
from latchkey.dashboard.drawing.scale import heat
from latchkey.subjects.charts.page import figures as words
from latchkey.subjects.charts.rules.chart import Cell, ChartData, Estimate, HeatMap, HeatRow, VariantResult
from latchkey.subjects.charts.rules.definition import Unit


@dataclass(frozen=True, slots=True)
class Square:
    words: str
    # The value behind a share, as a hint.
    hint: str
    # 0 to 10; None for a period that has not begun.
    level: int | None
    complete: bool


@dataclass(frozen=True, slots=True)
class Cohort:
    label: str
    size: str
    squares: tuple[Square, ...]


@dataclass(frozen=True, slots=True)
class Cohorts:
    size_title: str
    columns: tuple[str, ...]
    rows: tuple[Cohort, ...]
    total: Cohort
    has_provisional: bool


def cohorts(data: ChartData) -> Cohorts | None:
    found = data.heat_map
    if found is None:
        return None
    # Money is no share of anything: colours are relative to the largest value.
    largest = max((cell.value or 0 for row in found.rows for cell in row.cells), default=0) or 1
    rows = tuple(_row(data, found, row, largest) for row in found.rows)
    provisional = any(not square.complete and square.level is not None for row in rows for square in row.squares)
    return Cohorts(found.size_title, found.columns, rows, _row(data, found, found.total, largest), provisional)


def _row(data: ChartData, found: HeatMap, row: HeatRow, largest: float) -> Cohort:
    return Cohort(row.label, texts.number(row.size), tuple(_square(data, found, one, largest) for one in row.cells))


def _square(data: ChartData, found: HeatMap, cell: Cell, largest: float) -> Square:
    if cell.value is None and cell.share is None:
        return Square("", "", None, cell.complete)
    value = words.full(cell.value, found.unit, data.currency)
    if found.unit is Unit.MONEY:
        return Square(value, "", heat((cell.value or 0) / largest), cell.complete)
    if cell.share is None:
        # Of all cohorts together, before any of them is old enough.
        return Square("–", value, None, complete=True)
    return Square(texts.percent(cell.share), value, heat(cell.share), cell.complete)


@dataclass(frozen=True, slots=True)
class Measured:
    variant: str
    is_control: bool
    value: str
    # "1.2 % to 3.4 %", or "" where there is too little data.
    interval: str
    drawn: Interval | None


@dataclass(frozen=True, slots=True)
class Measure:
    title: str
    variants: tuple[Measured, ...]
    # Where zero stands, in percent from the left; None if it is not in the picture.
    zero: float | None


def measures(data: ChartData) -> tuple[Measure, ...]:
    """One picture for each thing that was measured."""
    others = [one for one in data.variants if not one.is_control]
    found = [
        _measure(data, "Conversion to paying", data.variants, lambda one: one.conversion_to_paying, Unit.SHARE),
        _measure(data, "Initial conversion", data.variants, lambda one: one.initial_conversion, Unit.SHARE),
        _measure(data, "Revenue per customer", data.variants, lambda one: one.revenue_per_customer, Unit.MONEY),
        _measure(data, "Difference in conversion to paying", others, lambda one: one.conversion_difference, Unit.SHARE),
        _measure(data, "Difference in revenue per customer", others, lambda one: one.revenue_difference, Unit.MONEY),
    ]
    return tuple(one for one in found if one.variants)


def probability(one: VariantResult) -> str:
    return "–" if one.probability_better is None else texts.percent(one.probability_better)


def _measure(
    data: ChartData,
    title: str,
    variants: Sequence[VariantResult],
    estimate: Callable[[VariantResult], Estimate | None],
    unit: Unit,
) -> Measure:
    known = [(one, found) for one in variants if (found := estimate(one)) is not None]
    drawn, zero = intervals([(found.low, found.value, found.high) for _, found in known])
    return Measure(
        title,
        tuple(
            Measured(
                one.variant,
                one.is_control,
                words.full(found.value, unit, data.currency),
                _interval(found, unit, data.currency),
                picture,
            )
            for (one, found), picture in zip(known, drawn, strict=True)
        ),
        zero,
    )


def _interval(one: Estimate, unit: Unit, currency: str | None) -> str:
    if one.low is None or one.high is None:
        return ""
    return f"{words.full(one.low, unit, currency)} to {words.full(one.high, unit, currency)}"
