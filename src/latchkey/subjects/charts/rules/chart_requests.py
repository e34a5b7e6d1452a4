"""What a reader may ask of a chart, its periods, and the questions about sums that answer it."""

from collections.abc import Iterator, Sequence
from datetime import date, timedelta

from msgspec.structs import replace

from latchkey.domain.instants import DAY, Duration, Ms, add
from latchkey.domain.money.exchange_rates import NO_RATES, Rates
from latchkey.domain.naming import checked_currency
from latchkey.domain.purchases.purchase import USD
from latchkey.domain.refusal import Invalid, NotFound
from latchkey.subjects.charts.rules.chart import ChartPeriod, ChartRequest
from latchkey.subjects.charts.rules.definition import BY_NAME, OF_PURCHASES, Definition, Drawing
from latchkey.subjects.charts.rules.facts import (
    LEVELS,
    LIFETIMES,
    Amounts,
    Day,
    Filter,
    Kind,
    Question,
    Resolution,
    date_of,
    day_of,
    period_of,
)

# Five years of days.
MOST_PERIODS = 1_830
LONGEST = timedelta(days=20 * 366)
MOST_FILTERS, MOST_VALUES, LONGEST_VALUE = 20, 200, 500
_DAYS = {Resolution.DAY: 1, Resolution.WEEK: 7, Resolution.MONTH: 28}
_LONGEST_DAYS = {**_DAYS, Resolution.MONTH: 31}
# Break downs that are no dimension of facts: they tell facts of one kind apart by their n.
BY_N = frozenset({"transaction_type", "renewal_number"})
# Charts of the vendor that are not served, and why.
_NOT_SERVED = {
    "customers_active": "Latchkey keeps the last contact of a customer, not every one. For the number of customers "
    "seen since a day, filter customer_list by last_seen_after.",
}


def definition_of(name: str) -> Definition:
    found = BY_NAME.get(name)
    if found is None:
        why = _NOT_SERVED.get(name)
        known = f"The charts are {', '.join(BY_NAME)}."
        raise NotFound(f"There is no chart {name[:40]!r}. {why or known}", param="chart_name")
    return found


def checked(request: ChartRequest, now: Ms) -> ChartRequest:
    """The same request with all selectors and without days to come. Refuses what makes no sense."""
    definition = definition_of(request.name)
    today = date_of(now // DAY)
    if request.first > request.last:
        raise Invalid("The first day is after the last day.", param="start_date")
    if request.last - request.first > LONGEST:
        raise Invalid("A chart covers at most 20 years.", param="start_date")
    if (request.last - request.first).days // _DAYS[request.resolution] >= MOST_PERIODS:
        raise Invalid(f"A chart has at most {MOST_PERIODS:,} periods: choose weeks or months.", param="resolution")
    checked_currency(request.currency)
    _check_filters(definition, request)
    if request.segment is not None and not definition.allows_segment(request.segment):
        raise Invalid(f"This chart cannot be broken down by {request.segment[:40]!r}.", param="segment")
    if definition.is_snapshot:
        request = replace(request, first=today, last=today, resolution=Resolution.DAY)
    return replace(
        request,
        last=min(request.last, today),
        selectors=_selectors(definition, request),
        compare=request.compare and definition.has_comparison,
    )


def _check_filters(definition: Definition, request: ChartRequest) -> None:
    if len(request.filters) > MOST_FILTERS:
        raise Invalid(f"A chart has at most {MOST_FILTERS} filters.", param="filters")
    for dimension, values in request.filters:
        if not definition.allows_filter(dimension):
            raise Invalid(f"This chart cannot be filtered by {dimension[:40]!r}.", param="filters")
        if not 1 <= len(values) <= MOST_VALUES:
            raise Invalid(f"A filter has 1 to {MOST_VALUES} values.", param="filters")
        if any(len(value) > LONGEST_VALUE for value in values):
            raise Invalid(f"The value of a filter has at most {LONGEST_VALUE} characters.", param="filters")


def _selectors(definition: Definition, request: ChartRequest) -> dict[str, str]:
    known = {selector.name: selector for selector in definition.selectors}
    for name, value in request.selectors.items():
        if name not in known:
            raise Invalid(f"This chart has no selector {name[:40]!r}.", param="selectors")
        ids = [choice.id for choice in known[name].choices]
        if ids and value not in ids:
            raise Invalid(f"{name} is one of {', '.join(ids)}.", param="selectors")
    return {**{name: selector.default for name, selector in known.items()}, **request.selectors}


def before(request: ChartRequest) -> ChartRequest:
    """The same chart for the preceding period of equal length."""
    first, last = preceding(request.first, request.last, request.resolution)
    return replace(request, first=first, last=last, compare=False)


def _amounts(request: ChartRequest, definition: Definition, rates: Rates) -> Amounts:
    if not definition.has_money:
        return Amounts.NONE
    if request.currency != USD:
        # Amounts in other currencies can be added up in USD before they are converted. Not where some of them would be
        # left out, because the chart says which currencies those are; not where levels are converted at the ends of
        # periods; and not where the chart needs USD too.
        is_simple = definition.drawing is not Drawing.INTERVALS and LEVELS.isdisjoint(definition.kinds)
        covered = is_simple and rates.covers(request.currency, day_of(request.first), day_of(request.last))
        return Amounts.DISPLAY if covered else Amounts.ALL
    # The chart of revenue shows what is left after tax and commission, whatever is chosen.
    is_gross = request.name != "revenue" and request.selectors.get("revenue_type", "revenue") == "revenue"
    return Amounts.GROSS_USD if is_gross else Amounts.USD


def _any_n(request: ChartRequest, kinds: Sequence[Kind]) -> tuple[tuple[Kind, int | None], ...]:
    """The kinds whose n the chart does not look at."""
    ignored: dict[Kind, int | None] = {Kind.RETURN: None, Kind.REFUNDED_PAYMENT: None}
    if request.segment != "transaction_type":
        ignored |= {Kind.PAYMENT: None, Kind.REFUND: None}
    if request.segment != "renewal_number":
        ignored |= {Kind.RENEWAL_DUE: None, Kind.RENEWED: None}
    if request.name != "actives_new":
        ignored[Kind.NEW] = None
    if request.name != "cohort_explorer":
        last = request.windows[-1]
        ignored |= {Kind.SEEN_REVENUE: last, Kind.SEEN_PAYER: last, Kind.SEEN_CONVERTED: last}
    return tuple((kind, ignored[kind]) for kind in kinds if kind in ignored)


def questions_of(request: ChartRequest, rates: Rates = NO_RATES) -> tuple[Question, ...]:
    """Of a checked request. Customers have no product, so filters and segments by product are not asked of them: a
    second question. With the rates of its currency there are fewer sums."""
    definition = definition_of(request.name)
    filters = request.filters
    segment = None if request.segment in BY_N else request.segment
    if (duration := request.selectors.get("duration")) is not None:
        filters = (*filters, Filter("duration", (duration,)))
    if experiment := request.selectors.get("experiment"):
        segment = f"experiment:{experiment}"
    # Flows of money are converted by the rate of each day.
    by_day = definition.has_money and request.currency != USD and any(one not in LEVELS for one in definition.kinds)
    amounts = _amounts(request, definition, rates)
    whole = Question(
        environment=request.environment,
        kinds=definition.kinds,
        first=day_of(request.first),
        last=day_of(request.last),
        resolution=Resolution.DAY if by_day else request.resolution,
        filters=filters,
        segment=segment,
        amounts=amounts,
        any_n=_any_n(request, definition.kinds),
        currency=request.currency if amounts is Amounts.DISPLAY else USD,
    )
    if Kind.CUSTOMER not in whole.kinds or (
        segment not in OF_PURCHASES and not any(chosen.dimension in OF_PURCHASES for chosen in filters)
    ):
        return (whole,)
    return (
        whole._replace(kinds=tuple(one for one in whole.kinds if one is not Kind.CUSTOMER)),
        whole._replace(
            kinds=(Kind.CUSTOMER,),
            filters=tuple(chosen for chosen in filters if chosen.dimension not in OF_PURCHASES),
            segment=None if segment in OF_PURCHASES else segment,
        ),
    )


# Questions about fewer periods are asked at once.
FEW_PERIODS = 40


def is_wide(request: ChartRequest) -> bool:
    if request.segment is None or request.segment in BY_N:
        return False
    question = questions_of(request)[0]
    return (question.last - question.first) // _DAYS[question.resolution] >= FEW_PERIODS


def periods_of(definition: Definition, request: ChartRequest, now: Ms) -> tuple[ChartPeriod, ...]:
    """Oldest first, none after today. A period is complete when it has ended, the dates asked for do not cut it, and
    customers first seen in it have had the time that the chart gives them."""
    today = now // DAY
    window = LIFETIMES[request.windows[-1]]
    asked, latest = day_of(request.first), min(day_of(request.last), today)
    found: list[ChartPeriod] = []
    for start, end in _spans(asked, latest, request.resolution):
        first, last = max(start, asked), min(end, latest)
        whole = last == end and (first == start or definition.is_level)
        if definition.is_of_first_seen:
            whole = whole and window is not None and last + window < today
        label = date_of(start).isoformat()[: 7 if request.resolution is Resolution.MONTH else None]
        found.append(ChartPeriod(date_of(first), date_of(last), label, whole and last < today))
    return tuple(found)


def preceding(first: date, last: date, resolution: Resolution) -> tuple[date, date]:
    """The nearest dates before `first` that have as many periods: moved back by whole days, weeks or months."""
    if resolution is Resolution.MONTH:
        months = 1
        while _months_before(last, months) >= first:
            months += 1
        return _months_before(first, months), _months_before(last, months)
    length = _DAYS[resolution]
    step = timedelta(days=length * -(-((last - first).days + 1) // length))
    return first - step, last - step


def _months_before(when: date, months: int) -> date:
    """The last day of a month stays the last day of a month."""
    is_last = (when + timedelta(days=1)).day == 1
    return date_of(add(day_of(when) * DAY, Duration(months=-months), anchor_day=31 if is_last else None) // DAY)


def _spans(first: Day, last: Day, resolution: Resolution) -> Iterator[tuple[Day, Day]]:
    """First and last day of the whole periods that these days touch."""
    start = period_of(first, resolution)
    while start <= last:
        following = period_of(start + _LONGEST_DAYS[resolution], resolution)
        yield start, following - 1
        start = following
