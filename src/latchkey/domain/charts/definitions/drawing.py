"""How a chart is drawn, and in what it is measured."""

from __future__ import annotations

from enum import StrEnum


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
