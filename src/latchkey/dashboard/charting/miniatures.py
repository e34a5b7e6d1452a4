"""Small pictures of charts that are no line: cohorts, what becomes of subscriptions, the variants of an experiment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from latchkey.dashboard import texts
from latchkey.dashboard.charting import words
from latchkey.dashboard.charting.asking import Environment, Offered
from latchkey.dashboard.charting.ranges import today
from latchkey.dashboard.drawing.ranks import Interval, Rank, intervals, ranks
from latchkey.domain.charts.chart import ChartData, ChartRequest, HeatMap
from latchkey.domain.charts.fact import LIFETIMES, Resolution

# Cohorts and columns of a small heat map.
_ROWS, _COLUMNS = 5, 7
# So many months of cohorts are read.
_MONTHS = 6


@dataclass(frozen=True, slots=True)
class Tile:
    # In percent of the picture.
    x: float
    y: float
    width: float
    height: float
    # 0 to 1.
    strength: float


@dataclass(frozen=True, slots=True)
class Miniature:
    # The number of the card, and what it is; both may be empty.
    value: str
    note: str
    tiles: tuple[Tile, ...] = ()
    ranks: tuple[Rank, ...] = ()
    estimates: tuple[Interval | None, ...] = ()


def miniature_requests(environment: Environment, offered: Offered) -> list[ChartRequest]:
    """The cohorts of the last months, how subscriptions stand now, and the first experiment of the list."""
    last = today(environment.now)
    month = last.year * 12 + last.month - _MONTHS
    first = date(month // 12, month % 12 + 1, 1)
    found = [
        ChartRequest(name=name, environment=environment.id, first=first, last=last, resolution=Resolution.MONTH)
        for name in ("subscription_retention", "cohort_explorer", "subscription_status")
    ]
    if experiments := offered.choices.get("experiment"):
        chosen = {"experiment": experiments[0].id}
        found.append(
            ChartRequest(
                name="experiment_results", environment=environment.id, first=first, last=last, selectors=chosen
            )
        )
    return found


def miniature(data: ChartData) -> Miniature | None:
    """None where there is nothing to draw."""
    if data.is_empty:
        return None
    if data.heat_map is not None:
        return _cohorts(data, data.heat_map)
    if data.variants:
        return _variants(data)
    drawn = [(one.title, words.number_of(one.total, one.unit)) for one in data.drawn]
    total = sum(value or 0 for _, value in drawn)
    return Miniature(f"{total:,.0f}", "active now", ranks=ranks(drawn, lambda value: f"{value:,.0f}"))


def _cohorts(data: ChartData, found: HeatMap) -> Miniature:
    rows = found.rows[-_ROWS:]
    columns = min(len(found.columns), _COLUMNS)
    largest = max((cell.value or 0 for row in rows for cell in row.cells[:columns]), default=0) or 1
    width, height = 100 / max(columns, 1), 100 / max(len(rows), 1)
    tiles = tuple(
        Tile(
            round(place * width, 2),
            round(number * height, 2),
            round(width * 0.94, 2),
            round(height * 0.9, 2),
            round(0.08 + 0.92 * max(0.0, cell.share if cell.share is not None else (cell.value or 0) / largest), 3),
        )
        for number, row in enumerate(rows)
        for place, cell in enumerate(row.cells[:columns])
        if cell.value is not None
    )
    return Miniature(*_first_period(data, found), tiles=tiles)


def _first_period(data: ChartData, found: HeatMap) -> tuple[str, str]:
    """The share of all cohorts that was kept for one more period; where the map has money, what a customer has paid
    within the first 30 days."""
    shares = [one.share for one in found.total.cells if one.share is not None]
    if len(shares) > 1:
        return texts.percent(shares[1]), "kept for a second period"
    place = LIFETIMES.index(30)
    cells = found.total.cells
    if len(cells) <= place or cells[place].value is None:
        return "", ""
    return words.full(cells[place].value, found.unit, data.currency), "per customer within 30 days"


def _variants(data: ChartData) -> Miniature:
    conversions = [one.conversion_to_paying for one in data.variants]
    drawn, _ = intervals([(one.low, one.value, one.high) for one in conversions])
    better = [one for one in data.variants if one.probability_better is not None]
    if not better:
        return Miniature("", "", estimates=tuple(drawn))
    best = max(better, key=lambda one: one.probability_better or 0)
    note = f"that {best.variant} converts better"
    return Miniature(texts.percent(best.probability_better or 0), note, estimates=tuple(drawn))
