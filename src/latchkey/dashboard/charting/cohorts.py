"""A heat map as its page shows it: rows of cohorts, columns of later periods."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.dashboard import texts
from latchkey.dashboard.charting import words
from latchkey.dashboard.drawing.scale import heat
from latchkey.domain.charts.chart import Cell, ChartData, HeatMap, HeatRow
from latchkey.domain.charts.definitions.definition import Unit


@dataclass(frozen=True, slots=True)
class Square:
    words: str
    # The value behind a share, as a hint.
    hint: str
    # 0 to 10; None for a period that has not begun.
    level: int | None
    complete: bool


@dataclass(frozen=True, slots=True)
class Cohort:
    label: str
    size: str
    squares: tuple[Square, ...]


@dataclass(frozen=True, slots=True)
class Cohorts:
    size_title: str
    columns: tuple[str, ...]
    rows: tuple[Cohort, ...]
    total: Cohort
    has_provisional: bool


def cohorts(data: ChartData) -> Cohorts | None:
    found = data.heat_map
    if found is None:
        return None
    # Money is no share of anything: colours are relative to the largest value.
    largest = max((cell.value or 0 for row in found.rows for cell in row.cells), default=0) or 1
    rows = tuple(_row(data, found, row, largest) for row in found.rows)
    provisional = any(not square.complete and square.level is not None for row in rows for square in row.squares)
    return Cohorts(found.size_title, found.columns, rows, _row(data, found, found.total, largest), provisional)


def _row(data: ChartData, found: HeatMap, row: HeatRow, largest: float) -> Cohort:
    return Cohort(row.label, texts.number(row.size), tuple(_square(data, found, one, largest) for one in row.cells))


def _square(data: ChartData, found: HeatMap, cell: Cell, largest: float) -> Square:
    if cell.value is None and cell.share is None:
        return Square("", "", None, cell.complete)
    value = words.full(cell.value, found.unit, data.currency)
    if found.unit is Unit.MONEY:
        return Square(value, "", heat((cell.value or 0) / largest), cell.complete)
    if cell.share is None:
        # Of all cohorts together, before any of them is old enough.
        return Square("–", value, None, complete=True)
    return Square(texts.percent(cell.share), value, heat(cell.share), cell.complete)
