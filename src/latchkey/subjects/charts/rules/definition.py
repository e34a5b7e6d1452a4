"""What a chart is: its words, its units, how it is drawn, what it needs, and what a reader may choose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from latchkey.subjects.charts.rules.facts import LIFETIMES, Kind

if TYPE_CHECKING:
    from latchkey.subjects.charts.rules.chart import ChartRequest, Series
    from latchkey.subjects.charts.rules.columns import Columns


class Unit(StrEnum):
    COUNT = "count"
    # Millionths of the chart's currency.
    MONEY = "money"
    # 0.05 is five percent.
    SHARE = "share"


class Drawing(StrEnum):
    """How a chart is best drawn. Each series says whether it is drawn at all."""

    LINE = "line"
    BARS = "bars"
    # Series on top of each other. Negative values go below the axis. A series with `is_net` is a line across them.
    STACKED_BARS = "stacked_bars"
    HEAT_MAP = "heat_map"
    # Rows of estimates with intervals (experiments).
    INTERVALS = "intervals"


# Dimensions of a customer, and those that only purchases have.
OF_CUSTOMERS = ("country", "platform", "app_version")
OF_PURCHASES = ("product", "duration", "store", "offering")
PLAIN = (*OF_PURCHASES, *OF_CUSTOMERS)
# One dimension for each experiment and each chosen attribute.
EXPERIMENT, ATTRIBUTE = "experiment:", "attribute:"

TITLES = {
    "product": "Product",
    "duration": "Duration",
    "store": "Store",
    "offering": "Offering",
    "country": "Country",
    "platform": "Platform",
    "app_version": "App version",
    "transaction_type": "First payment or later",
    "renewal_number": "Number of the renewal",
}


# The headings that charts stand under, in order.
GROUPS = REVENUE, SUBSCRIPTIONS, TRIALS, CUSTOMERS, EXPERIMENTS = (
    "Revenue",
    "Subscriptions",
    "Trials",
    "Customers",
    "Experiments",
)


@dataclass(frozen=True, slots=True)
class Choice:
    id: str
    title: str


@dataclass(frozen=True, slots=True)
class Selector:
    """Something that a reader chooses besides dates, filters and segments."""

    name: str
    title: str
    default: str
    # Empty: the project has them (experiments).
    choices: tuple[Choice, ...]


# The first series is the chart's own: with segments it is the only one that is drawn.
Measures: TypeAlias = "Callable[[Columns, ChartRequest], list[Series]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """Decorates the function that computes its series from sums."""

    name: str
    title: str
    # The heading that it stands under.
    group: str
    # What it counts, in plain words. Shown where the chart stands.
    words: str
    # Where our rule differs from RevenueCat's; "" if it does not.
    differs: str = ""
    unit: Unit = Unit.COUNT
    kinds: tuple[Kind, ...]
    drawing: Drawing = Drawing.LINE
    # Plain dimensions to filter by. Attributes can be filtered by in every chart.
    filters: tuple[str, ...] = PLAIN
    # To break down by. Without any, attributes and experiments are no segments either.
    segments: tuple[str, ...] = PLAIN
    # Whether it can be filtered and broken down by the variants of an experiment.
    has_experiments: bool = True
    selectors: tuple[Selector, ...] = ()
    # Its values are those at the end of each period, not sums over it.
    is_level: bool = False
    # Its periods are of customers first seen in them.
    is_of_first_seen: bool = False
    # It shows how things stand now, whatever the dates.
    is_snapshot: bool = False
    has_comparison: bool = True
    # Whether it shows money although that is not its unit.
    has_other_money: bool = False
    # None for heat maps and experiments.
    measures: Measures | None = None
    # The measure that says how large a segment is; "" for the first one.
    weight: str = ""

    def __call__(self, measures: Measures) -> Definition:
        return replace(self, measures=measures)

    @property
    def has_money(self) -> bool:
        """Whether it has money at all, so that the currency matters."""
        return self.has_other_money or self.unit is Unit.MONEY

    @property
    def is_ratio(self) -> bool:
        """Segments do not add up to the whole."""
        return self.unit is Unit.SHARE or self.is_of_first_seen

    def drawing_of(self, segment: str | None) -> Drawing:
        if segment is None or self.drawing is Drawing.HEAT_MAP:
            return self.drawing
        return Drawing.LINE if self.is_ratio else Drawing.STACKED_BARS

    def selector(self, name: str) -> Selector | None:
        return next((selector for selector in self.selectors if selector.name == name), None)

    def allows_filter(self, dimension: str) -> bool:
        return dimension in self.filters or self._is_projects(dimension)

    def allows_segment(self, dimension: str) -> bool:
        return bool(self.segments) and (dimension in self.segments or self._is_projects(dimension))

    def _is_projects(self, dimension: str) -> bool:
        """One of those that each project has for itself."""
        return dimension.startswith(ATTRIBUTE) or (self.has_experiments and dimension.startswith(EXPERIMENT))


@dataclass(frozen=True, slots=True)
class Dimension:
    """What the charts of a project can be filtered and broken down by."""

    id: str
    title: str
    group: str | None
    # The most frequent first.
    values: tuple[Choice, ...]


def title_of(dimension: str) -> str:
    return TITLES.get(dimension) or dimension.partition(":")[2]


REVENUE_TYPE = Selector(
    "revenue_type",
    "Revenue type",
    "revenue",
    (
        Choice("revenue", "Revenue"),
        Choice("revenue_net_of_taxes", "Revenue net of taxes"),
        Choice("proceeds", "Proceeds"),
    ),
)

# In the order of LIFETIMES.
WINDOWS = (
    Choice("0_days", "Day 0"),
    Choice("7_days", "7 days"),
    Choice("14_days", "14 days"),
    Choice("30_days", "30 days"),
    Choice("3_months", "3 months (90 days)"),
    Choice("6_months", "6 months (180 days)"),
    Choice("12_months", "12 months (365 days)"),
    Choice("24_months", "24 months (730 days)"),
    Choice("unbounded", "No limit"),
)
assert len(WINDOWS) == len(LIFETIMES)

CONVERSION_TIMEFRAME = Selector("conversion_timeframe", "Conversion within", "7_days", WINDOWS)
LIFETIME = Selector("customer_lifetime", "Customer lifetime", "30_days", WINDOWS)

# As `format_duration` writes them.
DURATION = Selector(
    "duration",
    "Duration",
    "P1M",
    (
        Choice("P1D", "1 day"),
        Choice("P3D", "3 days"),
        Choice("P1W", "1 week"),
        Choice("P2W", "2 weeks"),
        Choice("P4W", "4 weeks"),
        Choice("P1M", "1 month"),
        Choice("P2M", "2 months"),
        Choice("P3M", "3 months"),
        Choice("P6M", "6 months"),
        Choice("P1Y", "1 year"),
    ),
)
