"""Charts as V2 shows them, and as CSV: a row for each period, a column for each series. In CSV numbers are plain
(1234.5, no thousands separators), and shares are fractions (0.05)."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from io import StringIO
from itertools import islice, zip_longest
from typing import Any, TypeAlias

from msgspec import UNSET

from latchkey.domain.instants import DAY, Ms, to_iso
from latchkey.domain.money.amounts import MICROS
from latchkey.domain.purchases.purchase import USD
from latchkey.subjects.charts import wire
from latchkey.subjects.charts.rules.chart import (
    MOST_SEGMENTS,
    ChartData,
    ChartPeriod,
    Estimate,
    HeatMap,
    Series,
    Value,
    VariantResult,
)
from latchkey.subjects.charts.rules.definition import METRICS, Choice, Definition, Dimension, Unit
from latchkey.subjects.charts.rules.facts import REST, Resolution, day_of
from latchkey.wire.attributes import from_attributes

UNITS: Mapping[Unit, wire.Unit] = {Unit.COUNT: "#", Unit.MONEY: "$", Unit.SHARE: "%"}
# A segment can have any value, "other" too.
TOTAL = wire.Named(id="$total", display_name="Total")
OTHERS = "$other"
AGGREGATES = ("total", "average")
DECIMALS = 6
# What was measured of a variant.
ESTIMATES = {
    "initial_conversion": Unit.SHARE,
    "conversion_to_paying": Unit.SHARE,
    "revenue_per_customer": Unit.MONEY,
    "conversion_difference": Unit.SHARE,
    "revenue_difference": Unit.MONEY,
}


def chart(
    data: ChartData, aggregates: Sequence[str] = (), unsupported: wire.UnsupportedParams | None = None
) -> wire.Chart:
    """With `aggregates`, `values` is empty and `summary` has only these."""
    definition, request = data.definition, data.request
    measures = _measures(data)
    segments = _segments(data)
    kept = tuple(aggregates) or AGGREGATES
    previous = data.previous
    return wire.Chart(
        category=definition.group.lower(),
        display_type=data.drawing.value,
        display_name=definition.title,
        description=definition.words,
        differences=definition.differs,
        resolution=request.resolution.value,
        start_date=_at(request.first),
        end_date=_at(request.last),
        last_computed_at=data.as_of,
        yaxis=UNITS[data.unit],
        yaxis_currency=data.currency or USD,
        filtering_allowed=bool(definition.filters),
        segmenting_allowed=bool(definition.segments),
        measures=measures,
        segments=segments if request.segment is not None else UNSET,
        segments_limit=MOST_SEGMENTS,
        columns=list(data.heat_map.columns) if data.heat_map is not None else UNSET,
        values=[] if aggregates else list(_values(data, data.series, data.periods, measures, segments)),
        summary=_summary(data.series, kept, segments if request.segment is not None else None),
        user_selectors=dict(request.selectors),
        previous=None
        if previous is None
        else wire.PreviousValues(
            start_date=_at(previous.periods[0].first),
            end_date=_at(previous.periods[-1].last),
            values=[] if aggregates else list(_values(data, previous.series, previous.periods, measures, segments)),
            summary=_summary(previous.series, kept, segments if request.segment is not None else None),
        ),
        variants=[_variant(variant) for variant in data.variants],
        unsupported_params=unsupported or wire.UnsupportedParams(filters=[]),
        # A test clock has its id.
        environment=request.environment.lower() if request.environment.isupper() else request.environment,
        left_out=data.left_out,
    )


def in_units(value: Value, unit: Unit) -> Value:
    """Money in units, shares in percent."""
    if value is None or unit is Unit.COUNT:
        return value
    return value / MICROS if unit is Unit.MONEY else round(100 * value, DECIMALS)


def _at(when: date) -> Ms:
    return day_of(when) * DAY


def _measures(data: ChartData) -> list[wire.ChartMeasure]:
    if (heat := data.heat_map) is not None:
        # The one measure of a heat map is followed by its share.
        of_all = f"Of {heat.size_title.lower()}"
        found = [("value", data.definition.title, heat.unit, True, False), ("share", of_all, Unit.SHARE, True, False)]
    else:
        # With segments the total may be left undrawn while the segments of the same measure are drawn.
        drawn = {series.measure for series in data.drawn}
        whole = [series for series in data.series if series.segment is None]
        found = [(one.measure, one.title, one.unit, one.measure in drawn, one.is_net) for one in whole]
    return [
        wire.ChartMeasure(id=id, display_name=title, unit=UNITS[unit], chartable=chartable, is_net=is_net)
        for id, title, unit, chartable, is_net in found
    ]


def _segments(data: ChartData) -> list[wire.Named]:
    if data.heat_map is not None:
        keys = [row.label if row.segment is None else row.segment for row in data.heat_map.rows]
        titles = {OTHERS if key == REST else key: row.label for key, row in zip(keys, data.heat_map.rows, strict=True)}
    else:
        titles = {
            _key(series): series.title for series in data.series if series.segment is not None and series.is_drawn
        }
    return [*(wire.Named(id=id, display_name=title) for id, title in titles.items()), TOTAL]


def _key(one: Series) -> str:
    return TOTAL.id if one.segment is None else OTHERS if one.is_other else one.segment


def _values(
    data: ChartData,
    series: Sequence[Series],
    periods: Sequence[ChartPeriod],
    measures: Sequence[wire.ChartMeasure],
    segments: Sequence[wire.Named],
) -> Iterator[wire.ChartValue]:
    with_segments = data.request.segment is not None
    if data.heat_map is not None:
        # The total is the last of the segments. Without segments the rows are periods, and it is none of them.
        rows = (*data.heat_map.rows, data.heat_map.total) if with_segments else data.heat_map.rows
        for place, row in enumerate(rows):
            for period, cell in enumerate(row.cells):
                numbers = in_units(cell.value, data.heat_map.unit), in_units(cell.share, Unit.SHARE)
                for measure, value in enumerate(numbers):
                    yield wire.ChartValue(
                        cohort=_at(row.first or data.request.first),
                        measure=measure,
                        segment=place if with_segments else UNSET,
                        period=period,
                        value=value,
                        incomplete=not cell.complete,
                    )
        return
    places = {one.id: place for place, one in enumerate(measures)}
    segment_places = {one.id: place for place, one in enumerate(segments)}
    for line in series:
        for of, value in zip(periods, line.values, strict=True):
            yield wire.ChartValue(
                cohort=_at(of.first),
                measure=places[line.measure],
                segment=segment_places[_key(line)] if with_segments else UNSET,
                value=in_units(value, line.unit),
                incomplete=not of.complete,
            )


def _summary(
    series: Sequence[Series], aggregates: Sequence[str], segments: Sequence[wire.Named] | None
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for aggregate in aggregates:
        by_segment: dict[str, dict[str, Value]] = {one.id: {} for one in segments or (TOTAL,)}
        for line in series:
            by_segment[_key(line)][line.measure] = in_units(getattr(line, aggregate), line.unit)
        found[aggregate] = by_segment if segments is not None else by_segment[TOTAL.id]
    return found


def _variant(result: VariantResult) -> wire.VariantResult:
    return from_attributes(
        wire.VariantResult,
        result,
        paying=result.payers,
        revenue=result.revenue / MICROS,
        probability_better=in_units(result.probability_better, Unit.SHARE),
        **{name: _interval(getattr(result, name), unit) for name, unit in ESTIMATES.items()},
    )


def _interval(estimate: Estimate | None, unit: Unit) -> wire.Interval | None:
    if estimate is None:
        return None
    bounds = (in_units(bound, unit) for bound in (estimate.low, estimate.high))
    low, high = (None if bound is None else round(bound, DECIMALS) for bound in bounds)
    return wire.Interval(value=in_units(estimate.value, unit), low=low, high=high)


def options(definition: Definition, dimensions: Sequence[Dimension]) -> wire.ChartOptions:
    def about(dimension: Dimension) -> dict[str, Any]:
        group = dimension.group or UNSET
        return {"id": dimension.id, "display_name": dimension.title, "group_display_name": group}

    segments = [dimension for dimension in dimensions if definition.allows_segment(dimension.id)]
    filters = [dimension for dimension in dimensions if definition.allows_filter(dimension.id)]
    return wire.ChartOptions(
        resolutions=[wire.Named(id=str(place), display_name=one.capitalize()) for place, one in enumerate(Resolution)],
        segments=[wire.ChartDimension(**about(dimension)) for dimension in segments],
        filters=[wire.ChartFilter(**about(dimension), options=_named(dimension.values)) for dimension in filters],
        user_selectors={
            selector.name: wire.ChartSelector(
                display_name=selector.title, default=selector.default, options=_named(selector.choices)
            )
            for selector in definition.selectors
        },
    )


def _named(choices: Iterable[Choice]) -> list[wire.Named]:
    return [wire.Named(id=choice.id, display_name=choice.title) for choice in choices]


_ACTIVE_USERS = (
    "Customers who were seen in the last 28 days: an app asked for them, or they bought something. Exact to the hour."
)


def overview(found: Mapping[str, ChartData], active_users: int, now: Ms) -> wire.OverviewMetrics:
    """Of each chart its first measure: as of now for a level, over the whole range for a flow."""
    metrics: list[wire.OverviewMetric] = []
    for name, (id, title) in METRICS.items():
        data, first = found[name], found[name].series[0]
        definition = data.definition
        metrics.append(_metric(id, title, definition.words, first.unit, first.total, data.as_of, definition.is_level))
        if name == "customers_new":
            metrics.append(_metric("active_users", "Active Users", _ACTIVE_USERS, Unit.COUNT, active_users, now))
    return wire.OverviewMetrics(metrics=metrics)


def _metric(
    id: str, name: str, words: str, unit: Unit, value: Value, at: Ms, is_level: bool = False
) -> wire.OverviewMetric:
    return wire.OverviewMetric(
        id=id,
        name=name,
        description=words,
        unit=UNITS[unit],
        period="P0D" if is_level else "P28D",
        value=in_units(value, unit) or 0,
        last_updated_at=at,
        last_updated_at_iso8601=to_iso(at),
    )


_Row: TypeAlias = Sequence[object]
# What a spreadsheet would take for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def chart_csv(data: ChartData, aggregates: Sequence[str] = ()) -> str:
    """With `aggregates` (total, average) only these, without periods."""
    if data.heat_map is not None:
        rows = _heat_map(data.heat_map, total_only=bool(aggregates))
    elif data.variants:
        rows = _variants(data)
    else:
        rows = _csv_summary(data, aggregates) if aggregates else _series(data)
    return written(rows)


def written(rows: Iterable[_Row]) -> str:
    """As CSV."""
    text = StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue()


def _series(data: ChartData) -> Iterator[_Row]:
    columns: list[_Row] = [
        ["first_day", *(period.first for period in data.periods)],
        ["last_day", *(period.last for period in data.periods)],
        ["complete", *("yes" if period.complete else "no" for period in data.periods)],
        *_columns(data, data.series),
    ]
    if (previous := data.previous) is not None:
        columns += [
            ["previous_first_day", *(period.first for period in previous.periods)],
            ["previous_last_day", *(period.last for period in previous.periods)],
            *([f"previous {title}", *numbers] for title, *numbers in _columns(data, previous.series)),
        ]
    # The period before may have fewer periods, and more are not shown.
    return islice(zip_longest(*columns, fillvalue=""), 1 + len(data.periods))


def _columns(data: ChartData, series: Sequence[Series]) -> Iterator[_Row]:
    for title, one in zip(_titles(data), series, strict=True):
        yield [title, *(number_in_csv(value, one.unit) for value in one.values)]


def _csv_summary(data: ChartData, aggregates: Sequence[str]) -> Iterator[_Row]:
    titles = _titles(data)
    before = data.previous.series if data.previous is not None else ()
    yield ["summary", *titles, *(f"previous {title}" for title in titles if before)]
    for name in aggregates:
        yield [name, *(number_in_csv(getattr(one, name), one.unit) for one in (*data.series, *before))]


def _heat_map(heat: HeatMap, *, total_only: bool) -> Iterator[_Row]:
    """A row for each cell that has a value: a table that spreadsheets and databases can pivot."""
    yield ["row", heat.size_title.lower(), "column", "value", "share", "complete"]
    for row in (heat.total,) if total_only else (*heat.rows, heat.total):
        for title, cell in zip(heat.columns, row.cells, strict=True):
            if cell.value is not None:
                numbers = [number_in_csv(cell.value, heat.unit), number_in_csv(cell.share, Unit.SHARE)]
                yield [_safe(row.label), row.size, title, *numbers, "yes" if cell.complete else "no"]


def _variants(data: ChartData) -> Iterator[_Row]:
    yield [
        *("variant", "customers", "converted", "paying", f"revenue ({data.currency})"),
        *(f"{name}{end}" for name in ESTIMATES for end in ("", "_low", "_high")),
        "probability_better",
    ]
    for variant in data.variants:
        row: list[object] = [_safe(variant.variant), variant.customers, variant.converted, variant.payers]
        row.append(number_in_csv(variant.revenue, Unit.MONEY))
        for name, unit in ESTIMATES.items():
            found: Estimate = getattr(variant, name) or Estimate(None)
            row += [number_in_csv(value, unit) for value in (found.value, found.low, found.high)]
        yield [*row, number_in_csv(variant.probability_better, Unit.SHARE)]


def _titles(data: ChartData) -> list[str]:
    units = (f" ({data.currency})" if series.unit is Unit.MONEY else "" for series in data.series)
    return [_safe(series.title + unit) for series, unit in zip(data.series, units, strict=True)]


def number_in_csv(value: Value, unit: Unit) -> str:
    if value is None:
        return ""
    if unit is Unit.MONEY:
        return f"{value / MICROS:.6f}".rstrip("0").rstrip(".")
    return str(value) if isinstance(value, int) else f"{value:.6f}".rstrip("0").rstrip(".")


def _safe(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text
