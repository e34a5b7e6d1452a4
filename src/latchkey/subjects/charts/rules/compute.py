"""A chart from sums: the one entry of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress

from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import USD
from latchkey.domain.tariff.rates import NO_RATES, Rates
from latchkey.subjects.charts.rules.chart import (
    OTHER,
    ChartData,
    ChartRequest,
    HeatMap,
    Period,
    Previous,
    Series,
    Value,
)
from latchkey.subjects.charts.rules.chart_periods import periods_of
from latchkey.subjects.charts.rules.chart_requests import BY_N, before, definition_of
from latchkey.subjects.charts.rules.cohort_maps import cohort_explorer, retention
from latchkey.subjects.charts.rules.columns import Columns, added, fold
from latchkey.subjects.charts.rules.definition import OF_PURCHASES, Definition, Drawing, Unit
from latchkey.subjects.charts.rules.exchange import REVENUE_TYPES, Exchange
from latchkey.subjects.charts.rules.experiment_results import variant_results
from latchkey.subjects.charts.rules.facts import REST, Kind, Run
from latchkey.subjects.charts.rules.measures import MEASURES, Measure, weight

# Segments that have a series of their own.
MOST_SEGMENTS = 10
NOT_KNOWN = "Not known"


def compute(
    request: ChartRequest,
    runs: Sequence[Run],
    now: Ms,
    *,
    rates: Rates = NO_RATES,
    earlier: Sequence[Run] = (),
    variants: Sequence[str] = (),
) -> ChartData:
    """`request` is checked; `runs` answer all its questions, and `earlier` those of `before(request)` if it compares.
    `variants` are those of the experiment, the control first."""
    definition = definition_of(request.name)
    exchange = Exchange(request.currency, rates, _types(request))
    periods = periods_of(definition, request, now)
    folded = fold(runs, periods, request.resolution, exchange, _segmenting(request))
    drawing = definition.drawing if request.segment is None else definition.segmented or definition.drawing
    chart = ChartData(
        definition=definition,
        request=request,
        drawing=drawing,
        unit=_unit(definition, request),
        currency=request.currency if definition.has_money else None,
        periods=periods,
        series=(),
        left_out=exchange.left_out,
    )
    match drawing:
        case Drawing.HEAT_MAP:
            return replace(chart, heat_map=_heat_map(request, folded, periods, now))
        case Drawing.INTERVALS:
            in_usd = fold(runs, periods, request.resolution, Exchange(USD, rates), _segmenting(request))
            listed = [*variants, *sorted(one for one in folded if one and one not in variants)]
            return replace(chart, variants=variant_results(request, listed, folded, in_usd))
        case _:
            pass
    if request.name == "trial_conversion_rate":
        periods = _while_trials_run(periods, added(folded.values(), len(periods)))
        chart = replace(chart, periods=periods)
    old_request = before(request)
    old_periods = periods_of(definition, old_request, now) if request.compare else ()
    old_exchange = Exchange(request.currency, rates, _types(request))
    old = fold(earlier, old_periods, request.resolution, old_exchange, _segmenting(request)) if request.compare else {}
    largest, has_other = _largest(request, _shared(request, folded, len(periods)), old)
    series = _series(request, definition, folded, periods, largest, has_other)
    if not request.compare or not definition.has_comparison:
        return replace(chart, series=series)
    then = _series(request, definition, old, old_periods, largest, has_other)
    return replace(chart, series=series, previous=_aligned(series, then, old_periods))


def largest_segments(
    request: ChartRequest, runs: Iterable[Run], now: Ms, *, rates: Rates = NO_RATES
) -> list[str] | None:
    """The segments of a chart that have a series of their own. None: there are so few that all have."""
    periods = periods_of(definition_of(request.name), request, now)
    # The chosen type alone decides.
    exchange = Exchange(request.currency, rates, _types(request)[:1])
    folded = fold(runs, periods, request.resolution, exchange, _segmenting(request))
    largest, has_other = _largest(request, _shared(request, folded, len(periods)), {})
    return largest if has_other else None


def _aligned(series: tuple[Series, ...], then: tuple[Series, ...], periods: tuple[Period, ...]) -> Previous:
    """A series that exists only where it is not zero (exchange rates, product changes) may be missing then."""
    known = {one.id: one for one in then}
    found = []
    for one in series:
        zeros: tuple[Value, ...] = (0,) * len(periods)
        found.append(known.get(one.id) or replace(one, values=zeros, total=0, average=0))
    return Previous(periods, tuple(found))


def _types(request: ChartRequest) -> tuple[str, ...]:
    chosen = request.selectors.get("revenue_type", REVENUE_TYPES[0])
    return (chosen, *REVENUE_TYPES) if request.name == "revenue" else (chosen,)


def _unit(definition: Definition, request: ChartRequest) -> Unit:
    match request.name, request.selectors.get("measure"):
        case "subscription_status", ("mrr" | "arr"):
            return Unit.MONEY
        case "cohort_explorer", "payers":
            return Unit.COUNT
        case _:
            return definition.unit


def _segmenting(request: ChartRequest) -> Callable[[int], str] | None:
    """By n. None: as the runs say."""
    if request.segment not in BY_N:
        return None
    if request.segment == "transaction_type":
        return lambda n: "later" if n else "first"
    return str


def _shared(request: ChartRequest, folded: Mapping[str, Columns], length: int) -> Mapping[str, Columns]:
    """With segments by product every segment has all the customers: they are not of a product."""
    if request.segment not in OF_PURCHASES or Kind.CUSTOMER not in definition_of(request.name).kinds:
        return folded
    everyone = added(folded.values(), length).flow(Kind.CUSTOMER)
    found: dict[str, Columns] = {}
    for segment, columns in folded.items():
        rest = {key: column for key, column in columns.quantities.items() if key[0] is not Kind.CUSTOMER}
        if not rest:
            continue
        found[segment] = one = Columns(length)
        one.quantities = {**rest, (Kind.CUSTOMER, 0, 0): everyone}
        one.amounts = columns.amounts
    return found


def _largest(
    request: ChartRequest, folded: Mapping[str, Columns], old: Mapping[str, Columns]
) -> tuple[list[str], bool]:
    """The segments with a series of their own, and whether there are others."""
    if request.segment is None:
        return [], False
    if definition_of(request.name).drawing is Drawing.HEAT_MAP:
        weights: dict[str, float] = {one: sum(columns.flow(Kind.RETAINED, 0)) for one, columns in folded.items()}
    else:
        measures = MEASURES[request.name]
        weights = {one: weight(request.name, measures(columns, request)) for one, columns in folded.items()}
    weights |= {one: 0 for one in old if one not in weights}
    has_rest = weights.pop(REST, None) is not None
    if request.segment == "renewal_number":
        return sorted(weights, key=int), False
    ranked = sorted(weights, key=lambda one: (-weights[one], one))
    return ranked[:MOST_SEGMENTS], has_rest or len(ranked) > MOST_SEGMENTS


def _series(
    request: ChartRequest,
    definition: Definition,
    folded: Mapping[str, Columns],
    periods: tuple[Period, ...],
    largest: Sequence[str],
    has_other: bool,
) -> tuple[Series, ...]:
    length = len(periods)
    complete = [one.complete for one in periods]
    measures = MEASURES[request.name]
    total = measures(added(folded.values(), length), request)
    if request.segment is None:
        return tuple(_one(one, complete) for one in total)
    shared = _shared(request, folded, length)
    none = Columns(length)
    if shared is not folded:
        none.quantities = {(Kind.CUSTOMER, 0, 0): added(folded.values(), length).flow(Kind.CUSTOMER)}
    found: list[Series] = []
    for segment in largest:
        found += _of_segment(measures(shared.get(segment, none), request), complete, segment, request)
    if has_other:
        others = [columns for segment, columns in shared.items() if segment not in largest]
        rest = added(others, length)
        if shared is not folded:
            rest.quantities.update(none.quantities)
        found += _of_segment(measures(rest, request), complete, OTHER, request, is_other=True)
    # The parts of a stack add up to it, so it is not drawn; a share of all is worth a line of its own.
    draw_total = definition.unit is Unit.SHARE or definition.is_of_first_seen
    for place, one in enumerate(total):
        found.append(replace(_one(one, complete), is_drawn=draw_total and place == 0, is_net=False))
    return tuple(found)


def _of_segment(
    measures: Sequence[Measure],
    complete: Sequence[bool],
    segment: str,
    request: ChartRequest,
    *,
    is_other: bool = False,
) -> list[Series]:
    title = "Other" if is_other else segment_title(request.segment, segment)
    # The status of subscriptions has three measures of equal rank; of a segment their total is shown.
    first = next((one.id for one in measures if one.id == "total"), measures[0].id)
    return [
        replace(
            _one(one, complete),
            id=f"{one.id}|{OTHER}" if is_other else f"{one.id}:{segment}",
            title=title if one.id == first else f"{title}: {one.title}",
            segment=segment,
            is_other=is_other,
            is_drawn=one.id == first,
            is_net=False,
        )
        for one in measures
    ]


def segment_title(dimension: str | None, segment: str) -> str:
    match dimension:
        case "transaction_type":
            return "First payment" if segment == "first" else "Later payments"
        case "renewal_number":
            return f"Renewal {segment}" if segment != "12" else "Renewal 12 and later"
        case _:
            return segment or NOT_KNOWN


def _one(measure: Measure, complete: Sequence[bool]) -> Series:
    return Series(
        id=measure.id,
        title=measure.title,
        unit=measure.unit,
        measure=measure.id,
        values=measure.values,
        total=measure.total,
        average=_average(measure, complete),
        is_drawn=measure.is_drawn,
        is_net=measure.is_net,
    )


def _average(measure: Measure, complete: Sequence[bool]) -> Value:
    found = [value for value in compress(measure.values, complete) if value is not None]
    found = found or [value for value in measure.values if value is not None]
    if not found:
        return None
    mean = sum(found) / len(found)
    return round(mean) if measure.unit is Unit.MONEY else mean


def _while_trials_run(periods: tuple[Period, ...], columns: Columns) -> tuple[Period, ...]:
    running = columns.flow(Kind.TRIAL_STARTED, 0)
    return tuple(replace(one, complete=one.complete and not count) for one, count in zip(periods, running, strict=True))


def _heat_map(request: ChartRequest, folded: Mapping[str, Columns], periods: tuple[Period, ...], now: Ms) -> HeatMap:
    if request.name == "cohort_explorer":
        return cohort_explorer(request, added(folded.values(), len(periods)), periods, now)
    return retention(request, folded, periods, now)
