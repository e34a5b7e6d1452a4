"""V2: charts and the overview. Dates are epoch milliseconds of the first instant of a day (UTC). Money is in units of
`yaxis_currency`, shares are percentages."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from latchkey.subjects.charts.rules.chart import LeftOut

Unit = Literal["#", "$", "%"]


class Named(Struct, frozen=True, kw_only=True):
    id: str
    display_name: str


class ChartSelector(Struct, frozen=True, kw_only=True):
    display_name: str
    default: str
    options: list[Named]


class ChartMeasure(Struct, frozen=True, kw_only=True):
    """A line or row of bars of the chart. `values` name it by its place in the list."""

    id: str
    display_name: str
    unit: Unit
    # False: only for tables, such as the two numbers that a share is made of.
    chartable: bool
    # The sum of the other measures.
    is_net: bool


class ChartValue(Struct, frozen=True, kw_only=True):
    # The first day of the period.
    cohort: int
    # The places in `measures` and, with a segment, in `segments`.
    measure: int
    segment: int | UnsetType = UNSET
    # Of heat maps: the number of the column.
    period: int | UnsetType = UNSET
    # Null: there is no value, for example because there is nothing to divide by.
    value: int | float | None
    # The period still runs, is cut by the dates, or its customers have not had the chart's time yet.
    incomplete: bool


class UnsupportedParams(Struct, frozen=True, kw_only=True):
    """What the chart cannot do. It was ignored."""

    filters: list[str]
    segment: str | None = None


class Interval(Struct, frozen=True, kw_only=True):
    value: int | float | None
    # The 95 % interval; null where there is too little data.
    low: float | None
    high: float | None


class VariantResult(Struct, frozen=True, kw_only=True):
    """A variant of an experiment. Shares are percentages."""

    variant: str
    is_control: bool
    customers: int
    converted: int
    paying: int
    revenue: float
    initial_conversion: Interval
    conversion_to_paying: Interval
    revenue_per_customer: Interval
    # Against the control: the first variant, which has none of these three.
    conversion_difference: Interval | None
    probability_better: float | None
    revenue_difference: Interval | None


class Chart(Struct, frozen=True, kw_only=True):
    object: Literal["chart_data"] = "chart_data"
    category: str
    display_type: Literal["line", "bars", "stacked_bars", "heat_map", "intervals"]
    display_name: str
    description: str
    # Where the rule differs from RevenueCat's; empty if it does not.
    differences: str
    resolution: Literal["day", "week", "month"]
    start_date: int
    end_date: int
    last_computed_at: int
    yaxis: Unit
    yaxis_currency: str
    filtering_allowed: bool
    segmenting_allowed: bool
    measures: list[ChartMeasure]
    # With a segment: the largest first, then `$other`, then `$total`.
    segments: list[Named] | UnsetType = UNSET
    segments_limit: int
    # Of heat maps: the titles of the columns.
    columns: list[str] | UnsetType = UNSET
    values: list[ChartValue]
    # By aggregate (`total`, `average`) and measure; with a segment, by segment and measure.
    summary: dict[str, Any]
    # What was chosen, or the default; `/options` lists the choices.
    user_selectors: dict[str, str]
    # The preceding period of equal length, if asked for.
    previous: PreviousValues | None
    variants: list[VariantResult]
    unsupported_params: UnsupportedParams
    environment: str
    left_out: LeftOut


class PreviousValues(Struct, frozen=True, kw_only=True):
    start_date: int
    end_date: int
    values: list[ChartValue]
    summary: dict[str, Any]


class ChartDimension(Struct, frozen=True, kw_only=True):
    id: str
    display_name: str
    group_display_name: str | UnsetType = UNSET


class ChartFilter(ChartDimension, frozen=True, kw_only=True):
    # The most frequent values. Others can be asked for too.
    options: list[Named]


class ChartOptions(Struct, frozen=True, kw_only=True):
    object: Literal["chart_options"] = "chart_options"
    resolutions: list[Named]
    segments: list[ChartDimension]
    filters: list[ChartFilter]
    user_selectors: dict[str, ChartSelector]


class OverviewMetric(Struct, frozen=True, kw_only=True):
    object: Literal["overview_metric"] = "overview_metric"
    id: str
    name: str
    description: str
    unit: Unit
    # P0D: as of now. P28D: over the last 28 days.
    period: Literal["P0D", "P28D"]
    value: int | float
    last_updated_at: int | None
    last_updated_at_iso8601: str | None


class OverviewMetrics(Struct, frozen=True, kw_only=True):
    object: Literal["overview_metrics"] = "overview_metrics"
    metrics: list[OverviewMetric]
