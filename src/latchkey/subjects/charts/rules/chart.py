"""What a reader asks of a chart, and what a chart is once it is computed.

Numbers are exact until they are drawn: counts are whole numbers, money is in millionths of the currency, a share is a
fraction (0.05 is five percent). None means that there is no value, for example because there is nothing to divide by.
"""

from collections.abc import Mapping
from datetime import date
from typing import TypeAlias

from msgspec import Struct

from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import USD
from latchkey.subjects.charts.rules.definition import WINDOWS, Definition, Drawing, Unit
from latchkey.subjects.charts.rules.facts import Filter, Resolution

Value: TypeAlias = int | float | None

# The series of all segments that are not among the largest.
OTHER = "other"


MOST_SEGMENTS = 10


class ChartRequest(Struct, frozen=True, kw_only=True):
    """One view of one chart. `chart_requests.checked` has refused or completed everything that can be wrong with it."""

    name: str
    # PRODUCTION, SANDBOX, or the id of a test clock.
    environment: str
    # Both included, UTC.
    first: date
    last: date
    resolution: Resolution = Resolution.DAY
    # All of them must match. Dimensions are named as in `facts.Filter`.
    filters: tuple[Filter, ...] = ()
    # The dimension to break down by: as in a filter, or one of the definition's own (`transaction_type`).
    segment: str | None = None
    # So many of the largest segments have a series of their own.
    most_segments: int = MOST_SEGMENTS
    # The currency of display.
    currency: str = USD
    # By name, such as {"revenue_type": "proceeds"}; the definition has the names, values and defaults.
    selectors: Mapping[str, str] = {}
    # Also compute the preceding period of equal length.
    compare: bool = False

    @property
    def windows(self) -> range:
        """The places in LIFETIMES up to the chosen one; all of them if the chart has no such choice."""
        chosen = self.selectors.get("conversion_timeframe") or self.selectors.get("customer_lifetime")
        ids = [window.id for window in WINDOWS]
        return range(ids.index(chosen) + 1 if chosen in ids else len(ids))


class ChartPeriod(Struct, frozen=True):
    # The days that are counted, both included: the first and the last period can be cut by the dates asked for.
    first: date
    last: date
    # "2026-01-31" for a day, "2026-01-25" (its Sunday) for a week, "2026-01" for a month.
    label: str
    # False: it still runs, it is cut, or its customers have not had the time that the chart gives them.
    complete: bool


class Series(Struct, frozen=True):
    # Such as "new".
    measure: str
    title: str
    unit: Unit
    # One for each period.
    values: tuple[Value, ...]
    # Over all periods. Flows: the sum. Levels: the last value. Shares and averages: of all periods together,
    # and churn as if they were one.
    total: Value
    # False: for tables and files only.
    is_drawn: bool = True
    # The sum of the other drawn series.
    is_net: bool = False
    # The value of the segment ("" is "not known"), OTHER with `is_other`, or None for all.
    segment: str | None = None
    is_other: bool = False
    # The mean of the complete periods that have a value; of all if none is complete.
    average: Value = None

    @property
    def id(self) -> str:
        """Unique in the chart: the measure ("new"), or measure and segment ("mrr:US")."""
        if self.segment is None:
            return self.measure
        return f"{self.measure}|{OTHER}" if self.is_other else f"{self.measure}:{self.segment}"


class Cell(Struct, frozen=True):
    """None: that period has not begun."""

    value: Value
    # Of the size of the row.
    share: float | None
    complete: bool


class HeatRow(Struct, frozen=True):
    # The cohort's period, or the title of a segment.
    label: str
    # None for segments and the total.
    first: date | None
    size: int
    # One for each column.
    cells: tuple[Cell, ...]
    # The segment's value; None for cohorts and the total.
    segment: str | None = None


class HeatMap(Struct, frozen=True):
    unit: Unit
    # Such as "Period 1" or "30 days".
    columns: tuple[str, ...]
    rows: tuple[HeatRow, ...]
    # Shares of it leave out what is incomplete; its values do not.
    total: HeatRow
    # What `size` counts, such as "Subscriptions".
    size_title: str


class Estimate(Struct, frozen=True):
    """A measured value and its 95 % interval. No interval where there is too little data for one."""

    value: Value
    low: float | None = None
    high: float | None = None


class VariantResult(Struct, frozen=True, kw_only=True):
    variant: str
    # The first variant is what the others are compared with.
    is_control: bool
    customers: int
    # Customers who bought anything or started a trial; who paid.
    converted: int
    payers: int
    # Millionths of the chart's currency, less refunds.
    revenue: int
    initial_conversion: Estimate
    conversion_to_paying: Estimate
    # Millionths.
    revenue_per_customer: Estimate
    # This variant less the control, as shares; None for the control itself.
    conversion_difference: Estimate | None = None
    # That its true conversion to paying is higher than the control's.
    probability_better: float | None = None
    # Millionths.
    revenue_difference: Estimate | None = None


# As the API shows it, too.
class LeftOut(Struct, frozen=True, kw_only=True):
    """Payments without a known exchange rate. They are not in the values."""

    payments: int
    currencies: tuple[str, ...]


class Previous(Struct, frozen=True):
    """The preceding period of equal length: as many periods, and the same series in the same order. A segment that is
    not there has values of 0 or None."""

    periods: tuple[ChartPeriod, ...]
    series: tuple[Series, ...]


class ChartData(Struct, frozen=True, kw_only=True):
    definition: Definition
    request: ChartRequest
    drawing: Drawing
    # The unit of the drawn series.
    unit: Unit
    # The currency of every money value; None if the chart has none.
    currency: str | None
    periods: tuple[ChartPeriod, ...]
    # In the order of the legend. With segments: the largest first, then OTHER, then all (`segment` None).
    series: tuple[Series, ...]
    previous: Previous | None = None
    heat_map: HeatMap | None = None
    variants: tuple[VariantResult, ...] = ()
    left_out: LeftOut = LeftOut(payments=0, currencies=())
    # Until when everything is counted.
    as_of: Ms = 0

    @property
    def drawn(self) -> tuple[Series, ...]:
        return tuple(one for one in self.series if one.is_drawn)

    @property
    def is_empty(self) -> bool:
        """Nothing but zeros and missing values."""
        rows = self.heat_map.rows if self.heat_map is not None else ()
        sizes = (*(row.size for row in rows), *(variant.customers for variant in self.variants))
        return not any(sizes) and not any(value for series in self.series for value in series.values)
