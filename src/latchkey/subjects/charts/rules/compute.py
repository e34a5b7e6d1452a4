"""A chart from the sums that answer its questions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress

from msgspec.structs import replace

from latchkey.domain.instants import Ms
from latchkey.domain.money.exchange_rates import NO_RATES, Rates
from latchkey.domain.purchases.purchase import USD
from latchkey.subjects.charts.rules import measures
from latchkey.subjects.charts.rules.chart import OTHER, ChartData, ChartPeriod, ChartRequest, Previous, Series, Value
from latchkey.subjects.charts.rules.chart_requests import BY_N, before, definition_of, periods_of
from latchkey.subjects.charts.rules.cohort_maps import cohort_explorer, retention
from latchkey.subjects.charts.rules.columns import REVENUE_TYPES, ChartCurrency, Columns, added, fold
from latchkey.subjects.charts.rules.definition import OF_PURCHASES, Definition, Drawing, Unit
from latchkey.subjects.charts.rules.experiment_results import variant_results
from latchkey.subjects.charts.rules.facts import REST, Kind, Run

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
    exchange = ChartCurrency(request.currency, rates, _types(request))
    periods = periods_of(definition, request, now)
    folded = fold(runs, periods, request.resolution, exchange, _segmenting(request))
    chart = ChartData(
        definition=definition,
        request=request,
        drawing=definition.drawing_of(request.segment),
        unit=_unit(definition, request),
        currency=request.currency if definition.has_money else None,
        periods=periods,
        series=(),
        left_out=exchange.left_out,
        as_of=now,
    )
    if request.name == "cohort_explorer":
        return replace(chart, heat_map=cohort_explorer(request, added(folded.values(), len(periods)), periods, now))
    if chart.drawing is Drawing.HEAT_MAP:
        return replace(chart, heat_map=retention(request, folded, periods, now))
    if chart.drawing is Drawing.INTERVALS:
        in_usd = fold(runs, periods, request.resolution, ChartCurrency(USD, rates))
        listed = [*variants, *sorted(variant for variant in folded if variant and variant not in variants)]
        return replace(chart, variants=variant_results(request, listed, folded, in_usd))
    if request.name == "trial_conversion_rate":
        running = added(folded.values(), len(periods)).flow(Kind.TRIAL_STARTED, 0)
        periods = tuple(
            replace(period, complete=period.complete and not count)
            for period, count in zip(periods, running, strict=True)
        )
    old_periods = periods_of(definition, before(request), now) if request.compare else ()
    old_exchange = ChartCurrency(request.currency, rates, _types(request))
    old = fold(earlier, old_periods, request.resolution, old_exchange, _segmenting(request)) if request.compare else {}
    largest, has_other = _largest(request, folded, len(periods), old)
    series = _series(request, folded, periods, largest, has_other)
    previous = None
    if request.compare:
        then = {one.id: one for one in _series(request, old, old_periods, largest, has_other)}
        # A series that exists only where it is not zero (exchange rates, product changes) may be missing then.
        zeros: tuple[Value, ...] = (0,) * len(old_periods)
        aligned = [then.get(line.id) or replace(line, values=zeros, total=0, average=0) for line in series]
        previous = Previous(old_periods, tuple(aligned))
    return replace(chart, periods=periods, series=series, previous=previous)


def largest_segments(
    request: ChartRequest, runs: Iterable[Run], now: Ms, *, rates: Rates = NO_RATES
) -> list[str] | None:
    """The segments of a chart that have a series of their own. None: there are so few that all have."""
    periods = periods_of(definition_of(request.name), request, now)
    # The chosen type alone decides.
    exchange = ChartCurrency(request.currency, rates, _types(request)[:1])
    folded = fold(runs, periods, request.resolution, exchange, _segmenting(request))
    largest, has_other = _largest(request, folded, len(periods), {})
    return largest if has_other else None


def _types(request: ChartRequest) -> tuple[str, ...]:
    chosen = request.selectors.get("revenue_type", REVENUE_TYPES[0])
    return (chosen, *REVENUE_TYPES) if request.name == "revenue" else (chosen,)


def _unit(definition: Definition, request: ChartRequest) -> Unit:
    special = {
        ("subscription_status", "mrr"): Unit.MONEY,
        ("subscription_status", "arr"): Unit.MONEY,
        ("cohort_explorer", "payers"): Unit.COUNT,
    }
    return special.get((request.name, request.selectors.get("measure", "")), definition.unit)


def _segmenting(request: ChartRequest) -> Callable[[int], str] | None:
    """By n. None: as the runs say."""
    if request.segment not in BY_N:
        return None
    return str if request.segment == "renewal_number" else lambda n: "later" if n else "first"


def _measured(request: ChartRequest, columns: Columns) -> list[Series]:
    found: list[Series] = getattr(measures, request.name)(columns, request)
    return found


def _shared(request: ChartRequest, folded: Mapping[str, Columns], length: int) -> tuple[Mapping[str, Columns], Columns]:
    """By segment, and the columns of a segment that has nothing. With segments by product every segment has all the
    customers: they are not of a product."""
    none = Columns(length)
    if request.segment not in OF_PURCHASES or Kind.CUSTOMER not in definition_of(request.name).kinds:
        return folded, none
    none.numbers = {(Kind.CUSTOMER, 0, None): added(folded.values(), length).flow(Kind.CUSTOMER)}
    found: dict[str, Columns] = {}
    for segment, columns in folded.items():
        rest = {key: column for key, column in columns.numbers.items() if key[0] is not Kind.CUSTOMER}
        if rest:
            found[segment] = Columns(length, rest | none.numbers)
    return found, none


def _largest(
    request: ChartRequest, folded: Mapping[str, Columns], length: int, old: Mapping[str, Columns]
) -> tuple[list[str], bool]:
    """The segments with a series of their own, and whether there are others."""
    if request.segment is None:
        return [], False
    shared, _ = _shared(request, folded, length)
    weights = {segment: _weight(request, columns) for segment, columns in shared.items()}
    weights |= {segment: 0 for segment in old if segment not in weights}
    has_rest = weights.pop(REST, None) is not None
    if request.segment == "renewal_number":
        return sorted(weights, key=int), False
    ranked = sorted(weights, key=lambda segment: (-weights[segment], segment))
    return ranked[: request.most_segments], has_rest or len(ranked) > request.most_segments


def _weight(request: ChartRequest, columns: Columns) -> float:
    """Over all periods together, so that it is the same by day and by month, and what was refunded does not count."""
    definition = definition_of(request.name)
    if definition.drawing is Drawing.HEAT_MAP:
        return sum(columns.flow(Kind.RETAINED, 0))
    measured = _measured(request, columns)
    wanted = definition.weight or measured[0].measure
    return abs(sum(value or 0 for series in measured if series.measure == wanted for value in series.values))


def _series(
    request: ChartRequest,
    folded: Mapping[str, Columns],
    periods: tuple[ChartPeriod, ...],
    largest: Sequence[str],
    has_other: bool,
) -> tuple[Series, ...]:
    length = len(periods)
    total = _measured(request, added(folded.values(), length))
    found: list[Series] = []
    if request.segment is not None:
        shared, none = _shared(request, folded, length)
        for segment in largest:
            found += _of_segment(request, shared.get(segment, none), segment)
        if has_other:
            rest = added((columns for segment, columns in shared.items() if segment not in largest), length)
            rest.numbers.update(none.numbers)
            found += _of_segment(request, rest, OTHER, is_other=True)
        # The parts of a stack add up to it, so it is not drawn; a share of all is worth a line of its own.
        is_drawn = definition_of(request.name).is_ratio
        total = [replace(one, is_drawn=is_drawn and one is total[0], is_net=False) for one in total]
    complete = [period.complete for period in periods]
    return tuple(replace(one, average=_average(one, complete)) for one in (*found, *total))


def _of_segment(request: ChartRequest, columns: Columns, segment: str, *, is_other: bool = False) -> list[Series]:
    measured = _measured(request, columns)
    title = "Other" if is_other else segment_title(request.segment, segment)
    # The status of subscriptions has three measures of equal rank; of a segment their total is shown.
    first = next((series for series in measured if series.measure == "total"), measured[0])
    return [
        replace(
            series,
            title=title if series is first else f"{title}: {series.title}",
            segment=segment,
            is_other=is_other,
            is_drawn=series is first,
            is_net=False,
        )
        for series in measured
    ]


def segment_title(dimension: str | None, segment: str) -> str:
    if dimension == "transaction_type":
        return "First payment" if segment == "first" else "Later payments"
    if dimension == "renewal_number":
        return f"Renewal {segment}" if segment != "12" else "Renewal 12 and later"
    return segment or NOT_KNOWN


def _average(series: Series, complete: Sequence[bool]) -> Value:
    known = [value for value in compress(series.values, complete) if value is not None]
    known = known or [value for value in series.values if value is not None]
    if not known:
        return None
    mean = sum(known) / len(known)
    return round(mean) if series.unit is Unit.MONEY else mean
