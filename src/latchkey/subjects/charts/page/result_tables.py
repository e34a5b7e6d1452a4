"""Heat maps and the results of experiments, as their pages show them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from latchkey.dashboard import texts
from latchkey.dashboard.drawing.ranks import Interval, intervals
from latchkey.dashboard.drawing.scale import heat
from latchkey.subjects.charts.page.figures import full
from latchkey.subjects.charts.rules.chart import Cell, ChartData
from latchkey.subjects.charts.rules.definition import Unit


class Square(NamedTuple):
    words: str = ""
    # The value behind a share, as a hint.
    hint: str = ""
    # 0 to 10; None for a period that has not begun.
    level: int | None = None


def squares_of(data: ChartData) -> Callable[[Cell], Square]:
    """How each cell of a heat map is shown."""
    cells = [cell for row in data.heat_map.rows for cell in row.cells] if data.heat_map else []
    # Money is no share of anything: colours are relative to the largest value.
    largest = max((cell.value or 0 for cell in cells), default=0) or 1

    def square(cell: Cell) -> Square:
        value = full(cell.value, data.unit, data.currency)
        if cell.value is None and cell.share is None:
            return Square()
        if data.unit is Unit.MONEY:
            return Square(value, "", heat((cell.value or 0) / largest))
        if cell.share is None:
            # Of all cohorts together, before any of them is old enough.
            return Square("–", value)
        return Square(texts.percent(cell.share), value, heat(cell.share))

    return square


class Estimates(NamedTuple):
    """One thing that was measured, for each variant that has it."""

    title: str
    # Variant, value, its interval in words ("" where there is too little data), and its interval as it is drawn.
    variants: list[tuple[str, str, str, Interval | None]]
    # Where zero stands, in percent from the left; None if it is not in the picture.
    zero: float | None


def estimates_of(data: ChartData) -> list[Estimates]:
    measured = {
        "Conversion to paying": ("conversion_to_paying", Unit.SHARE),
        "Initial conversion": ("initial_conversion", Unit.SHARE),
        "Revenue per customer": ("revenue_per_customer", Unit.MONEY),
        "Difference in conversion to paying": ("conversion_difference", Unit.SHARE),
        "Difference in revenue per customer": ("revenue_difference", Unit.MONEY),
    }
    found = []
    for title, (name, unit) in measured.items():
        known = [(one.variant, estimate) for one in data.variants if (estimate := getattr(one, name)) is not None]
        drawn, zero = intervals([(estimate.low, estimate.value, estimate.high) for _, estimate in known])
        variants = []
        for (variant, estimate), picture in zip(known, drawn, strict=True):
            value, low, high = (full(one, unit, data.currency) for one in (estimate.value, estimate.low, estimate.high))
            has_interval = estimate.low is not None and estimate.high is not None
            variants.append((variant, value, f"{low} to {high}" if has_interval else "", picture))
        if variants:
            found.append(Estimates(title, variants, zero))
    return found
