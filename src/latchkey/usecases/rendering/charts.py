"""Charts as V2 shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any

from msgspec import UNSET

from latchkey.domain.charts.chart import ChartData, Estimate, HeatRow, Period, Series, Value
from latchkey.domain.charts.chart import VariantResult as Result
from latchkey.domain.charts.computing.compute import MOST_SEGMENTS
from latchkey.domain.charts.definitions.definition import Definition, Selector, Unit
from latchkey.domain.charts.definitions.listing import Options
from latchkey.domain.charts.fact import REST, Resolution, day_of
from latchkey.domain.instants import DAY, Ms, to_iso
from latchkey.domain.money import MICROS
from latchkey.domain.purchases.purchase import USD
from latchkey.wire import charts as wire

UNITS: Mapping[Unit, wire.Unit] = {Unit.COUNT: "#", Unit.MONEY: "$", Unit.SHARE: "%"}
# A segment can have any value, "other" too.
TOTAL = wire.Named(id="$total", display_name="Total")
OTHERS = "$other"
AGGREGATES = ("total", "average")
DECIMALS = 6
# A heat map's one measure is followed by its share.
_SHARE = "share"


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
        segmenting_allowed=definition.segmented is not None,
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
        variants=[_variant(one) for one in data.variants],
        unsupported_params=unsupported or wire.UnsupportedParams(filters=[]),
        environment=environment_name(request.environment),
        left_out=wire.LeftOut(payments=data.left_out.payments, currencies=list(data.left_out.currencies)),
    )


def shown(value: Value, unit: Unit) -> Value:
    """Money in units, shares in percent."""
    if value is None or unit is Unit.COUNT:
        return value
    return value / MICROS if unit is Unit.MONEY else round(100 * value, DECIMALS)


def selector(one: Selector) -> wire.ChartSelector:
    options = [wire.Named(id=choice.id, display_name=choice.title) for choice in one.choices]
    return wire.ChartSelector(display_name=one.title, default=one.default, options=options)


def environment_name(environment: str) -> str:
    """As V2 says it: `production`, `sandbox`, or the id of a test clock."""
    return environment.lower() if environment.isupper() else environment


def _at(when: date) -> Ms:
    return day_of(when) * DAY


def _measures(data: ChartData) -> list[wire.ChartMeasure]:
    if data.heat_map is not None:
        found = [_measure("value", data.definition.title, data.heat_map.unit)]
        return [*found, _measure(_SHARE, f"Of {data.heat_map.size_title.lower()}", Unit.SHARE)]
    return [
        wire.ChartMeasure(
            id=one.measure,
            display_name=one.title,
            unit=UNITS[one.unit],
            chartable=_is_chartable(one, data),
            is_net=one.is_net,
        )
        for one in data.series
        if one.segment is None
    ]


def _is_chartable(one: Series, data: ChartData) -> bool:
    """With segments the total may be left undrawn while the segments of the same measure are drawn."""
    return any(other.is_drawn for other in data.series if other.measure == one.measure)


def _measure(id: str, title: str, unit: Unit) -> wire.ChartMeasure:
    return wire.ChartMeasure(id=id, display_name=title, unit=UNITS[unit], chartable=True, is_net=False)


def _segments(data: ChartData) -> list[wire.Named]:
    if data.heat_map is not None:
        rows = data.heat_map.rows
        return [*(wire.Named(id=_row_key(row), display_name=row.label) for row in rows), TOTAL]
    named: dict[str, wire.Named] = {}
    for one in data.series:
        if one.segment is not None and one.is_drawn:
            named[_key(one)] = wire.Named(id=_key(one), display_name=one.title)
    return [*named.values(), TOTAL]


def _key(one: Series) -> str:
    if one.segment is None:
        return TOTAL.id
    return OTHERS if one.is_other else one.segment


def _row_key(row: HeatRow) -> str:
    if row.segment is None:
        return row.label
    return OTHERS if row.segment == REST else row.segment


def _values(
    data: ChartData,
    series: Sequence[Series],
    periods: Sequence[Period],
    measures: Sequence[wire.ChartMeasure],
    segments: Sequence[wire.Named],
) -> Iterator[wire.ChartValue]:
    if data.heat_map is not None:
        by_segment = data.request.segment is not None
        # The total is the last of the segments. Without segments the rows are periods, and it is none of them.
        rows = (*data.heat_map.rows, data.heat_map.total) if by_segment else data.heat_map.rows
        for place, row in enumerate(rows):
            yield from _row(
                row, _at(row.first or data.request.first), data.heat_map.unit, place if by_segment else None
            )
        return
    places = {one.id: place for place, one in enumerate(measures)}
    segment_places = {one.id: place for place, one in enumerate(segments)}
    with_segments = data.request.segment is not None
    for one in series:
        for period, value in zip(periods, one.values, strict=True):
            yield wire.ChartValue(
                cohort=_at(period.first),
                measure=places[one.measure],
                segment=segment_places[_key(one)] if with_segments else UNSET,
                value=shown(value, one.unit),
                incomplete=not period.complete,
            )


def _row(row: HeatRow, cohort: Ms, unit: Unit, segment: int | None) -> Iterator[wire.ChartValue]:
    for period, cell in enumerate(row.cells):
        for measure, value in enumerate((shown(cell.value, unit), shown(cell.share, Unit.SHARE))):
            yield wire.ChartValue(
                cohort=cohort,
                measure=measure,
                segment=UNSET if segment is None else segment,
                period=period,
                value=value,
                incomplete=not cell.complete,
            )


def _summary(
    series: Sequence[Series], aggregates: Sequence[str], segments: Sequence[wire.Named] | None
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for aggregate in aggregates:
        by_segment: dict[str, dict[str, Value]] = {one.id: {} for one in segments or (TOTAL,)}
        for one in series:
            value = one.total if aggregate == "total" else one.average
            by_segment[_key(one)][one.measure] = shown(value, one.unit)
        found[aggregate] = by_segment if segments is not None else by_segment[TOTAL.id]
    return found


def _variant(one: Result) -> wire.VariantResult:
    return wire.VariantResult(
        variant=one.variant,
        is_control=one.is_control,
        customers=one.customers,
        converted=one.converted,
        paying=one.payers,
        revenue=one.revenue / MICROS,
        initial_conversion=_interval(one.initial_conversion, Unit.SHARE),
        conversion_to_paying=_interval(one.conversion_to_paying, Unit.SHARE),
        revenue_per_customer=_interval(one.revenue_per_customer, Unit.MONEY),
        conversion_difference=None
        if one.conversion_difference is None
        else _interval(one.conversion_difference, Unit.SHARE),
        probability_better=shown(one.probability_better, Unit.SHARE),
        revenue_difference=None if one.revenue_difference is None else _interval(one.revenue_difference, Unit.MONEY),
    )


def _interval(one: Estimate, unit: Unit) -> wire.Interval:
    def bound(value: float | None) -> float | None:
        found = shown(value, unit)
        return None if found is None else round(found, DECIMALS)

    return wire.Interval(value=shown(one.value, unit), low=bound(one.low), high=bound(one.high))


def options(found: Options) -> wire.ChartOptions:
    return wire.ChartOptions(
        resolutions=[
            wire.Named(id=str(place), display_name=one.value.capitalize()) for place, one in enumerate(Resolution)
        ],
        segments=[
            wire.ChartDimension(id=one.id, display_name=one.title, group_display_name=one.group or UNSET)
            for one in found.dimensions
            if one.can_segment
        ],
        filters=[
            wire.ChartFilter(
                id=one.id,
                display_name=one.title,
                group_display_name=one.group or UNSET,
                options=[wire.Named(id=value.id, display_name=value.title) for value in one.values],
            )
            for one in found.dimensions
            if one.can_filter
        ],
        user_selectors={one.name: selector(one) for one in found.definition.selectors},
    )


# With the vendor's ids and names.
_METRICS = {
    "trials": ("active_trials", "Active Trials"),
    "actives": ("active_subscriptions", "Active Subscriptions"),
    "mrr": ("mrr", "MRR"),
    "revenue": ("revenue", "Revenue"),
    "customers_new": ("new_customers", "New Customers"),
}
_OUR_METRICS = {
    "arr": ("arr", "ARR"),
    "customers_paying": ("new_paying_customers", "New Paying Customers"),
}

_ACTIVE_USERS = (
    "Customers who were seen in the last 28 days: an app asked for them, or they bought something. Exact to the hour."
)


def overview(found: Mapping[str, ChartData], active_users: int, now: Ms) -> wire.OverviewMetrics:
    metrics, ours = (
        [metric(found[name], *named) for name, named in listed.items()] for listed in (_METRICS, _OUR_METRICS)
    )
    active = wire.OverviewMetric(
        id="active_users",
        name="Active Users",
        description=_ACTIVE_USERS,
        unit=UNITS[Unit.COUNT],
        period="P28D",
        value=active_users,
        last_updated_at=now,
        last_updated_at_iso8601=to_iso(now),
    )
    return wire.OverviewMetrics(metrics=[*metrics, active, *ours])


def metric(data: ChartData, id: str, name: str) -> wire.OverviewMetric:
    """The first measure of a chart: as of now for a level, over the whole range for a flow."""
    definition: Definition = data.definition
    first = data.series[0]
    return wire.OverviewMetric(
        id=id,
        name=name,
        description=definition.words,
        unit=UNITS[first.unit],
        period="P0D" if definition.is_level else "P28D",
        value=shown(first.total, first.unit) or 0,
        last_updated_at=data.as_of,
        last_updated_at_iso8601=to_iso(data.as_of),
    )
