"""The results of an experiment as its page shows them: each estimate with its interval."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from latchkey.dashboard import texts
from latchkey.dashboard.charting import words
from latchkey.dashboard.drawing.ranks import Interval, intervals
from latchkey.domain.charts.chart import ChartData, Estimate, VariantResult
from latchkey.domain.charts.definitions.definition import Unit


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
