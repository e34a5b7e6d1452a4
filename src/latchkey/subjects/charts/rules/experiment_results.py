"""Results of experiments, with 95 % intervals. Every method has a closed form, so the same numbers always give the same
answer.

- Conversion: Wilson's score interval. Its bounds stay between 0 and 1, also with few customers.
- Difference of two conversions: Newcombe's interval, from the two Wilson intervals.
- Probability to be better: conversions as beta distributions with a flat prior, their difference as a normal one.
- Revenue per customer and its difference: the interval of a mean from the spread of what customers paid (normal
  approximation; unequal variances). Only with MIN_PAYERS payers, since few large payments would deceive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import NormalDist

from latchkey.subjects.charts.rules.chart import ChartRequest, Estimate, VariantResult
from latchkey.subjects.charts.rules.chart_periods import window_place
from latchkey.subjects.charts.rules.columns import Columns
from latchkey.subjects.charts.rules.facts import Kind

MIN_PAYERS = 10
_NORMAL = NormalDist()
_Z = _NORMAL.inv_cdf(0.975)
# Millionths in a cent.
_CENT = 10_000


def wilson(successes: int, trials: int) -> Estimate:
    if trials <= 0:
        return Estimate(None)
    share = successes / trials
    # More successes than trials, or negative ones, would be a mistake of the facts.
    bounded = min(1.0, max(0.0, share))
    middle = (bounded + _Z * _Z / (2 * trials)) / (1 + _Z * _Z / trials)
    half = _Z * sqrt(bounded * (1 - bounded) / trials + _Z * _Z / (4 * trials * trials)) / (1 + _Z * _Z / trials)
    # By the formula exactly 0 and 1 at the ends, which floating point misses by a hair.
    low = max(0.0, middle - half) if successes > 0 else 0.0
    high = min(1.0, middle + half) if successes < trials else 1.0
    return Estimate(share, low, high)


def difference(one: Estimate, control: Estimate) -> Estimate:
    """Newcombe's method 10, of two Wilson intervals."""
    if one.value is None or control.value is None:
        return Estimate(None)
    value = one.value - control.value
    below = sqrt(_below(one) ** 2 + _above(control) ** 2)
    above = sqrt(_above(one) ** 2 + _below(control) ** 2)
    return Estimate(value, value - below, value + above)


def _below(one: Estimate) -> float:
    return (one.value or 0) - (one.low or 0)


def _above(one: Estimate) -> float:
    return (one.high or 0) - (one.value or 0)


def probability_better(one: tuple[int, int], control: tuple[int, int]) -> float | None:
    """Successes and trials of each."""
    if one[1] <= 0 or control[1] <= 0:
        return None
    (mean, variance), (other_mean, other_variance) = _beta(*one), _beta(*control)
    return _NORMAL.cdf((mean - other_mean) / sqrt(variance + other_variance))


def _beta(successes: int, trials: int) -> tuple[float, float]:
    a, b = successes + 1, max(0, trials - successes) + 1
    return a / (a + b), a * b / ((a + b) ** 2 * (a + b + 1))


class _Spend:
    """What the customers of a variant paid: mean and the variance of that mean, in millionths."""

    def __init__(self, customers: int, payers: int, revenue: int, usd: int, square: int) -> None:
        self.mean = revenue / customers if customers else None
        self.variance: float | None = None
        if customers > 1 and payers >= MIN_PAYERS:
            cents = usd / _CENT
            spread = max(0.0, (square - cents * cents / customers) / (customers - 1))
            # The squares are in USD. Their relation to the chart's currency is that of the sums.
            scale = revenue / usd if usd else 1.0
            self.variance = spread / customers * (_CENT * scale) ** 2

    def estimate(self) -> Estimate:
        if self.mean is None:
            return Estimate(None)
        if self.variance is None:
            return Estimate(round(self.mean))
        half = _Z * sqrt(self.variance)
        return Estimate(round(self.mean), self.mean - half, self.mean + half)

    def less(self, control: _Spend) -> Estimate:
        if self.mean is None or control.mean is None:
            return Estimate(None)
        value = self.mean - control.mean
        if self.variance is None or control.variance is None:
            return Estimate(round(value))
        half = _Z * sqrt(self.variance + control.variance)
        return Estimate(round(value), value - half, value + half)


class _Numbers:
    def __init__(self, columns: Columns, in_usd: Columns, request: ChartRequest) -> None:
        ns = range(window_place(request) + 1)
        self.customers = sum(columns.flow(Kind.ENROLLED))
        self.converted = sum(columns.flow(Kind.ENROLLED_CONVERTED, *ns))
        self.payers = sum(columns.flow(Kind.ENROLLED_PAYER, *ns))
        self.revenue = sum(columns.flow_money(Kind.ENROLLED_REVENUE, *ns))
        usd = sum(in_usd.flow_money(Kind.ENROLLED_REVENUE, *ns))
        square = sum(columns.flow(Kind.ENROLLED_SQUARE, *ns))
        self.spend = _Spend(self.customers, self.payers, self.revenue, usd, square)
        self.initial = wilson(self.converted, self.customers)
        self.paying = wilson(self.payers, self.customers)


def variant_results(
    request: ChartRequest, variants: Sequence[str], folded: Mapping[str, Columns], in_usd: Mapping[str, Columns]
) -> tuple[VariantResult, ...]:
    """The first is the control. `in_usd` are the same sums with all amounts in USD."""
    none = Columns(0)
    numbers = [(one, _Numbers(folded.get(one, none), in_usd.get(one, none), request)) for one in variants]
    results: list[VariantResult] = []
    for place, (variant, one) in enumerate(numbers):
        control = numbers[0][1]
        is_control = place == 0
        results.append(
            VariantResult(
                variant=variant,
                is_control=is_control,
                customers=one.customers,
                converted=one.converted,
                payers=one.payers,
                revenue=one.revenue,
                initial_conversion=one.initial,
                conversion_to_paying=one.paying,
                revenue_per_customer=one.spend.estimate(),
                conversion_difference=None if is_control else difference(one.paying, control.paying),
                probability_better=None
                if is_control
                else probability_better((one.payers, one.customers), (control.payers, control.customers)),
                revenue_difference=None if is_control else one.spend.less(control.spend),
            )
        )
    return tuple(results)
