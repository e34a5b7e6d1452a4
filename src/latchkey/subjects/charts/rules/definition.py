"""What a chart is: its words, its units, how it is drawn, what it needs, and what a reader may choose. All of them are
in `charts.toml`."""

import tomllib
from collections.abc import Mapping
from enum import StrEnum
from importlib.resources import files
from typing import Any

from msgspec import Struct, convert
from msgspec.structs import replace

from latchkey.subjects.charts.rules.facts import LIFETIMES, Kind


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


class Choice(Struct, frozen=True):
    id: str
    title: str


class Selector(Struct, frozen=True):
    """Something that a reader chooses besides dates, filters and segments."""

    name: str
    title: str
    default: str
    # Empty: the project has them (experiments).
    choices: tuple[Choice, ...]


class Definition(Struct, frozen=True, kw_only=True):
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
    # The measure that says how large a segment is; "" for the first one.
    weight: str = ""

    @property
    def has_series(self) -> bool:
        return self.drawing not in (Drawing.HEAT_MAP, Drawing.INTERVALS)

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

    def with_experiments(self, experiments: tuple[Choice, ...]) -> "Definition":
        """With those of the project as the choices of the selector `experiment`. The first one is chosen."""
        default = experiments[0].id if experiments else ""
        return replace(
            self,
            selectors=tuple(
                replace(one, choices=experiments, default=default) if one.name == "experiment" else one
                for one in self.selectors
            ),
        )

    def allows_filter(self, dimension: str) -> bool:
        return dimension in self.filters or self._is_projects(dimension)

    def allows_segment(self, dimension: str) -> bool:
        return bool(self.segments) and (dimension in self.segments or self._is_projects(dimension))

    def _is_projects(self, dimension: str) -> bool:
        """One of those that each project has for itself."""
        return dimension.startswith(ATTRIBUTE) or (self.has_experiments and dimension.startswith(EXPERIMENT))


class Dimension(Struct, frozen=True):
    """What the charts of a project can be filtered and broken down by."""

    id: str
    title: str
    group: str | None
    # The most frequent first.
    values: tuple[Choice, ...]


_DATA = tomllib.loads(files("latchkey.subjects.charts.rules").joinpath("charts.toml").read_text("utf-8"))
# The headings that charts stand under, in order.
GROUPS: tuple[str, ...] = tuple(_DATA["charts"])
SECTIONS: dict[str, list[str]] = _DATA["sections"]
METRICS: dict[str, tuple[str, str]] = {name: (id, title) for name, (id, title) in _DATA["metrics"].items()}
CHOICES = {name: tuple(Choice(id, title) for id, title in found.items()) for name, found in _DATA["choices"].items()}
WINDOWS = CHOICES["windows"]
assert len(WINDOWS) == len(LIFETIMES)
_SELECTORS = {
    key: Selector(found.get("name", key), found["title"], found["default"], CHOICES.get(found.get("choices"), ()))
    for key, found in _DATA["selectors"].items()
}


def _definition(group: str, name: str, data: Mapping[str, Any]) -> Definition:
    prose = {field: data.get(field, "").format_map(_DATA["phrases"]) for field in ("words", "differs")}
    selectors = [_SELECTORS[key] for key in data.get("selectors", ())]
    return convert({**data, **prose, "name": name, "group": group, "selectors": selectors}, Definition)


CHARTS = tuple(
    _definition(group, name, data) for group, charts in _DATA["charts"].items() for name, data in charts.items()
)
BY_NAME = {definition.name: definition for definition in CHARTS}


def title_of(dimension: str) -> str:
    return _DATA["dimensions"].get(dimension) or dimension.partition(":")[2]
