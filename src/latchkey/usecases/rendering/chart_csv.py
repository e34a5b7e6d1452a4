"""Charts as CSV: a row for each period, a column for each series. Numbers are plain: 1234.5, no thousands separators,
and shares are fractions (0.05)."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from io import StringIO
from typing import TypeAlias

from latchkey.domain.charts.chart import ChartData, Estimate, HeatMap, Previous, Value
from latchkey.domain.charts.definitions.definition import Unit
from latchkey.domain.money import MICROS

_Row: TypeAlias = list[str]
# What a spreadsheet would take for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def chart_csv(data: ChartData, aggregates: Sequence[str] = ()) -> str:
    """With `aggregates` (total, average) only these, without periods."""
    written = StringIO()
    csv.writer(written, lineterminator="\r\n").writerows(_rows(data, aggregates))
    return written.getvalue()


def _rows(data: ChartData, aggregates: Sequence[str]) -> Iterator[_Row]:
    if data.heat_map is not None:
        yield from _heat_map(data.heat_map, total_only=bool(aggregates))
    elif data.variants:
        yield from _variants(data)
    elif aggregates:
        yield from _summary(data, aggregates)
    else:
        yield from _series(data)


def _series(data: ChartData) -> Iterator[_Row]:
    titles = [_safe(_title(one.title, one.unit, data.currency)) for one in data.series]
    previous = data.previous
    header = ["first_day", "last_day", "complete", *titles]
    if previous is not None:
        header += ["previous_first_day", "previous_last_day", *(f"previous {title}" for title in titles)]
    yield header
    for place, period in enumerate(data.periods):
        row = [period.first.isoformat(), period.last.isoformat(), "yes" if period.complete else "no"]
        row += [_number(one.values[place], one.unit) for one in data.series]
        if previous is not None:
            row += _before(previous, place)
        yield row


def _summary(data: ChartData, aggregates: Sequence[str]) -> Iterator[_Row]:
    titles = [_safe(_title(one.title, one.unit, data.currency)) for one in data.series]
    before = data.previous.series if data.previous is not None else ()
    yield ["summary", *titles, *(f"previous {title}" for title in titles if before)]
    for name in aggregates:
        numbers = (_number(one.total if name == "total" else one.average, one.unit) for one in (*data.series, *before))
        yield [name, *numbers]


def _before(previous: Previous, place: int) -> _Row:
    if place >= len(previous.periods):
        return ["", "", *[""] * len(previous.series)]
    period = previous.periods[place]
    values = [_number(one.values[place], one.unit) for one in previous.series]
    return [period.first.isoformat(), period.last.isoformat(), *values]


def _heat_map(heat: HeatMap, *, total_only: bool) -> Iterator[_Row]:
    """A row for each cell that has a value: a table that spreadsheets and databases can pivot."""
    yield ["row", heat.size_title.lower(), "column", "value", "share", "complete"]
    for row in (heat.total,) if total_only else (*heat.rows, heat.total):
        for title, cell in zip(heat.columns, row.cells, strict=True):
            if cell.value is not None:
                numbers = [_number(cell.value, heat.unit), _number(cell.share, Unit.SHARE)]
                yield [_safe(row.label), str(row.size), title, *numbers, "yes" if cell.complete else "no"]


def _variants(data: ChartData) -> Iterator[_Row]:
    estimates = ("initial_conversion", "conversion_to_paying", "revenue_per_customer")
    against = ("conversion_difference", "revenue_difference")
    ends = ("", "_low", "_high")
    yield [
        *("variant", "customers", "converted", "paying", f"revenue ({data.currency})"),
        *(f"{name}{end}" for name in (*estimates, *against) for end in ends),
        "probability_better",
    ]
    for one in data.variants:
        row = [_safe(one.variant), str(one.customers), str(one.converted), str(one.payers)]
        row.append(_number(one.revenue, Unit.MONEY))
        for name in (*estimates, *against):
            found: Estimate = getattr(one, name) or Estimate(None)
            unit = Unit.MONEY if "revenue" in name else Unit.SHARE
            row += [_number(value, unit) for value in (found.value, found.low, found.high)]
        yield [*row, _number(one.probability_better, Unit.SHARE)]


def _title(title: str, unit: Unit, currency: str | None) -> str:
    return f"{title} ({currency})" if unit is Unit.MONEY else title


def _number(value: Value, unit: Unit) -> str:
    if value is None:
        return ""
    if unit is Unit.MONEY:
        return f"{value / MICROS:.6f}".rstrip("0").rstrip(".")
    return str(value) if isinstance(value, int) else f"{value:.6f}".rstrip("0").rstrip(".")


def _safe(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text
