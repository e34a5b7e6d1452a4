"""Results of experiments, with 95 % intervals. Every method has a closed form, so the same numbers always give the same
answer.

- Conversion: Wilson's score interval. Its bounds stay between 0 and 1, also with few customers.
- Difference of two conversions: Newcombe's interval, from the two Wilson intervals.
- Probability to be better: conversions as beta distributions with a flat prior, their difference as a normal one.
- Revenue per customer and its difference: the interval of a mean from the spread of what customers paid (normal
  approximation; unequal variances). Only with MIN_PAYERS payers, since few large payments would deceive.
"""

from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import NormalDist

from msgspec.structs import replace

from latchkey.subjects.charts.rules.chart import ChartRequest, Estimate, VariantResult
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
    below, above = one.value - (one.low or 0), (one.high or 0) - one.value
    control_below, control_above = control.value - (control.low or 0), (control.high or 0) - control.value
    return Estimate(value, value - sqrt(below**2 + control_above**2), value + sqrt(above**2 + control_below**2))


def probability_better(one: tuple[int, int], control: tuple[int, int]) -> float | None:
    """Successes and trials of each."""
    if one[1] <= 0 or control[1] <= 0:
        return None
    (mean, variance), (other_mean, other_variance) = _beta(*one), _beta(*control)
    return _NORMAL.cdf((mean - other_mean) / sqrt(variance + other_variance))


def _beta(successes: int, trials: int) -> tuple[float, float]:
    a, b = successes + 1, max(0, trials - successes) + 1
    return a / (a + b), a * b / ((a + b) ** 2 * (a + b + 1))


class _Sums:
    """What the customers of a variant did within the chosen time."""

    def __init__(self, request: ChartRequest, columns: Columns, in_usd: Columns) -> None:
        ns = request.windows
        self.customers = sum(columns.flow(Kind.ENROLLED))
        self.converted = sum(columns.flow(Kind.ENROLLED_CONVERTED, *ns))
        self.payers = sum(columns.flow(Kind.ENROLLED_PAYER, *ns))
        self.revenue = sum(columns.flow_money(Kind.ENROLLED_REVENUE, *ns))
        self.paying = wilson(self.payers, self.customers)
        # Of what a customer paid, in millionths: the mean, and the variance of that mean.
        self.mean = self.revenue / self.customers if self.customers else None
        self.variance: float | None = None
        if self.customers > 1 and self.payers >= MIN_PAYERS:
            usd = sum(in_usd.flow_money(Kind.ENROLLED_REVENUE, *ns))
            square = sum(columns.flow(Kind.ENROLLED_SQUARE, *ns))
            cents = usd / _CENT
            spread = max(0.0, (square - cents * cents / self.customers) / (self.customers - 1))
            # The squares are in USD. Their relation to the chart's currency is that of the sums.
            scale = self.revenue / usd if usd else 1.0
            self.variance = spread / self.customers * (_CENT * scale) ** 2


def _mean(value: float | None, variance: float | None) -> Estimate:
    if value is None:
        return Estimate(None)
    if variance is None:
        return Estimate(round(value))
    half = _Z * sqrt(variance)
    return Estimate(round(value), value - half, value + half)


def _mean_difference(one: _Sums, control: _Sums) -> Estimate:
    value = None if one.mean is None or control.mean is None else one.mean - control.mean
    variance = None if one.variance is None or control.variance is None else one.variance + control.variance
    return _mean(value, variance)


def variant_results(
    request: ChartRequest, variants: Sequence[str], folded: Mapping[str, Columns], in_usd: Mapping[str, Columns]
) -> tuple[VariantResult, ...]:
    """The first is the control. `in_usd` are the same sums with all amounts in USD."""
    none = Columns(0)
    sums = {variant: _Sums(request, folded.get(variant, none), in_usd.get(variant, none)) for variant in variants}
    control = next(iter(sums.values()), None)
    return tuple(_result(variant, found, control) for variant, found in sums.items())


def _result(variant: str, sums: _Sums, control: _Sums | None) -> VariantResult:
    result = VariantResult(
        variant=variant,
        is_control=sums is control,
        customers=sums.customers,
        converted=sums.converted,
        payers=sums.payers,
        revenue=sums.revenue,
        initial_conversion=wilson(sums.converted, sums.customers),
        conversion_to_paying=sums.paying,
        revenue_per_customer=_mean(sums.mean, sums.variance),
    )
    if control is None or sums is control:
        return result
    return replace(
        result,
        conversion_difference=difference(sums.paying, control.paying),
        probability_better=probability_better((sums.payers, sums.customers), (control.payers, control.customers)),
        revenue_difference=_mean_difference(sums, control),
    )
