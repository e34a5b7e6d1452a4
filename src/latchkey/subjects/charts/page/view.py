"""The form of a chart's page: what an address asks for, addresses that ask for something else, and what is offered.

Everything that a reader chooses is in the address, so a page can be shared. Values that nobody offered count as the
usual ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from urllib.parse import urlencode

from msgspec import Struct
from msgspec.structs import replace

from latchkey.dashboard.form import Form
from latchkey.dashboard.page import Visit
from latchkey.domain.instants import DAY, Duration, Ms, add
from latchkey.domain.purchases.purchase import USD, Environment
from latchkey.subjects.charts.page.presentation import value_title
from latchkey.subjects.charts.rules.chart import ChartRequest
from latchkey.subjects.charts.rules.chart_requests import LONGEST
from latchkey.subjects.charts.rules.definition import ATTRIBUTE, EXPERIMENT, Choice, Definition, title_of
from latchkey.subjects.charts.rules.facts import Filter, Resolution, date_of, day_of
from latchkey.subjects.charts.usecases import chosen_attributes, usual_environment
from latchkey.subjects.experiments.usecases import list_experiments
from latchkey.subjects.test_clocks.usecases import newest_clocks

FILTER = "filter."
# In an address, the value of a filter that stands for "not known".
UNKNOWN = "~"
# Series of segments that an eye can follow; the others are one, "Other".
MOST_IN_A_PICTURE = 6


class ViewEnvironment(Struct, frozen=True):
    # PRODUCTION, SANDBOX, or the id of a test clock, with its own time.
    id: str
    title: str
    now: Ms

    @property
    def slug(self) -> str:
        """In addresses: "production", "sandbox", or the id of a test clock."""
        return self.id.lower() if self.id in (Environment.PRODUCTION, Environment.SANDBOX) else self.id


class Offered(Struct, frozen=True):
    """What the project offers to choose from."""

    environments: Sequence[ViewEnvironment]
    # Experiments and attributes, as dimensions with their titles.
    dimensions: Mapping[str, str]
    experiments: tuple[Choice, ...]
    # The environment that a page opens on.
    usual: str


class ChartView(Struct, frozen=True):
    definition: Definition
    request: ChartRequest
    environment: ViewEnvironment
    # A name of RANGES.
    range: str
    # A dimension whose values are offered though no filter has one yet.
    adding: str = ""
    problem: str = ""


def view_of(definition: Definition, query: Form, offered: Offered) -> ChartView:
    definition = definition.with_experiments(offered.experiments)
    environment = environment_of(query, offered)
    name, span, problem = _dates(definition, query, date_of(environment.now // DAY))
    resolution = Resolution(query.choice("by", list(Resolution), usual_resolution(span)))
    if resolution is Resolution.DAY and (span[1] - span[0]).days >= MOST_DAYS:
        resolution = Resolution.WEEK
    segment = query.text("segment")
    allowed = segment in segmentable(definition, offered)
    filters = tuple(
        Filter(dimension, tuple("" if value == UNKNOWN else value for value in values))
        for dimension in filterable(definition, offered)
        if (values := query.all(FILTER + dimension))
    )
    adding = query.text("add_filter")
    compared = definition.has_comparison and not allowed
    request = ChartRequest(
        name=definition.name,
        environment=environment.id,
        first=span[0],
        last=span[1],
        resolution=resolution,
        filters=filters,
        segment=segment if allowed else None,
        most_segments=MOST_IN_A_PICTURE,
        currency=query.choice("currency", CURRENCIES, USD),
        selectors={
            one.name: query.choice(one.name, [choice.id for choice in one.choices], one.default)
            for one in definition.selectors
        },
        compare=definition.has_comparison and query.choice("compare", ("yes", "no"), _yes(compared)) == "yes",
    )
    return ChartView(
        definition, request, environment, name, adding if adding in filterable(definition, offered) else "", problem
    )


def environment_of(query: Form, offered: Offered) -> ViewEnvironment:
    """The one that was chosen, or the usual one."""
    asked = query.text("environment")
    usual = next(environment for environment in offered.environments if environment.id == offered.usual)
    return next((environment for environment in offered.environments if environment.slug == asked), usual)


def filterable(definition: Definition, offered: Offered) -> list[str]:
    """The dimensions that this chart can be filtered by."""
    dimensions = (*definition.filters, *offered.dimensions)
    return [dimension for dimension in dimensions if definition.allows_filter(dimension)]


def segmentable(definition: Definition, offered: Offered) -> list[str]:
    dimensions = (*definition.segments, *offered.dimensions)
    return [dimension for dimension in dimensions if definition.allows_segment(dimension)]


def params(view: ChartView, offered: Offered) -> list[tuple[str, str]]:
    """What an address must say to ask for this view; what is usual is left out."""
    request, definition = view.request, view.definition
    dated, usual = not definition.is_snapshot, usual_resolution((request.first, request.last))
    # Name, value, and whether the address has to say it.
    params: list[tuple[str, str, bool]] = [
        ("environment", view.environment.slug, view.environment.id != offered.usual),
        ("range", view.range, dated and view.range != usual_range(definition)),
        ("from", request.first.isoformat(), dated and view.range == DATES),
        ("to", request.last.isoformat(), dated and view.range == DATES),
        ("by", request.resolution, dated and request.resolution is not usual),
        ("segment", request.segment or "", bool(request.segment)),
        *((FILTER + chosen.dimension, value or UNKNOWN, True) for chosen in request.filters for value in chosen.values),
        ("currency", request.currency, request.currency != USD),
        *((one.name, value := request.selectors[one.name], value != one.default) for one in definition.selectors),
        ("compare", _yes(request.compare), request.compare != (definition.has_comparison and not request.segment)),
    ]
    return [(name, value) for name, value, is_said in params if is_said]


def query_of(view: ChartView, offered: Offered) -> str:
    """As the end of an address: "?by=week", or nothing."""
    chosen = params(view, offered)
    return "?" + urlencode(chosen) if chosen else ""


def usual_range(definition: Definition) -> str:
    return "90d" if definition.has_series else "12m"


def _dates(definition: Definition, query: Form, day: date) -> tuple[str, Range, str]:
    usual = usual_range(definition)
    first, last = query.text("from"), query.text("to")
    # An address with dates and no name of a range means these dates.
    name = query.choice("range", (*RANGES, DATES), DATES if first and last else usual)
    if name != DATES:
        return name, dates_of(name, day), ""
    try:
        span = date.fromisoformat(first), date.fromisoformat(last)
    except ValueError:
        return usual, dates_of(usual, day), "Dates are written like 2027-01-31."
    if span[0] > span[1]:
        return usual, dates_of(usual, day), "The first day is after the last one."
    if span[1] - span[0] > LONGEST:
        return usual, dates_of(usual, day), f"At most {LONGEST.days:,} days can be shown at once."
    if span[0] < EARLIEST or span[1].year > day.year + 1:
        return usual, dates_of(usual, day), f"Dates lie between {EARLIEST} and the end of next year."
    return name, span, ""


def _yes(value: bool) -> str:
    return "yes" if value else "no"


Range = tuple[date, date]
# Any two dates, from the fields beside it.
DATES = "dates"
# A longer range is shown by week even if days were asked for: nobody reads more rows than this.
MOST_DAYS = 3 * 366
EARLIEST = date(2000, 1, 1)


def usual_resolution(span: Range) -> Resolution:
    """So that a picture has neither two points nor a hundred."""
    days = (span[1] - span[0]).days + 1
    return Resolution.DAY if days <= 31 else Resolution.WEEK if days <= 190 else Resolution.MONTH


def dates_of(name: str, day: date) -> Range:
    """The dates of a named range, both included. `day` is today."""
    return RANGES[name][1](day)


def months_back(day: date, months: int) -> date:
    return date_of(add(day_of(day.replace(day=1)) * DAY, Duration(months=-months)) // DAY)


def _days(count: int) -> Callable[[date], Range]:
    return lambda day: (day - timedelta(days=count - 1), day)


# The title, and the dates as of a day.
RANGES: dict[str, tuple[str, Callable[[date], Range]]] = {
    "7d": ("Last 7 days", _days(7)),
    "28d": ("Last 28 days", _days(28)),
    "90d": ("Last 90 days", _days(90)),
    # Whole months and the one that runs.
    "12m": ("Last 12 months", lambda day: (months_back(day, 11), day)),
    "24m": ("Last 24 months", lambda day: (months_back(day, 23), day)),
    "month": ("This month", lambda day: (day.replace(day=1), day)),
    "last_month": ("Last month", lambda day: (months_back(day, 1), day.replace(day=1) - timedelta(days=1))),
    "year": ("This year", lambda day: (date(day.year, 1, 1), day)),
    "last_year": ("Last year", lambda day: (date(day.year - 1, 1, 1), date(day.year - 1, 12, 31))),
}


class Applied(Struct, frozen=True):
    """A filter with its values to tick."""

    dimension: str
    title: str
    # Value as in an address, title, whether it is ticked.
    values: Sequence[tuple[str, str, bool]]
    # The query of the page without this filter.
    without: str


def choices_of(view: ChartView, offered: Offered) -> dict[str, Sequence[object]]:
    """The options of each field of the form; selectors with their names and titles."""
    definition = view.definition
    segments = [(one, dimension_title(one, offered)) for one in segmentable(definition, offered)]
    used = {chosen.dimension for chosen in view.request.filters} | {view.adding}
    filters = [(one, dimension_title(one, offered)) for one in filterable(definition, offered) if one not in used]
    return {
        "ranges": [*((name, title) for name, (title, _) in RANGES.items()), (DATES, "These dates")],
        "environments": [(environment.slug, environment.title) for environment in offered.environments],
        "currencies": [(currency, currency) for currency in CURRENCIES],
        "segments": [("", "Nothing"), *segments] if segments else [],
        "filters": [("", "Choose…"), *filters],
        "selectors": [
            (selector.name, selector.title, [(choice.id, choice.title) for choice in selector.choices])
            for selector in definition.selectors
        ],
    }


def shown_filters(view: ChartView) -> list[str]:
    """The dimensions whose values the form shows: those of filters, and the one that was just added."""
    used = [chosen.dimension for chosen in view.request.filters]
    return used if not view.adding or view.adding in used else [*used, view.adding]


def applied(view: ChartView, offered: Offered, values: Mapping[str, Sequence[str]]) -> list[Applied]:
    """`values` has what can be ticked, by dimension. Ticked values are listed even if nothing is counted for them."""
    ticked = {chosen.dimension: chosen.values for chosen in view.request.filters}
    found = []
    for dimension in shown_filters(view):
        chosen = ticked.get(dimension, ())
        listed = dict.fromkeys((*values.get(dimension, ()), *chosen))
        others = tuple(filter for filter in view.request.filters if filter.dimension != dimension)
        without = replace(view, request=replace(view.request, filters=others))
        found.append(
            Applied(
                dimension,
                dimension_title(dimension, offered),
                [(one or UNKNOWN, value_title(dimension, one), one in chosen) for one in listed],
                query_of(without, offered),
            )
        )
    return found


def summary_line(view: ChartView, offered: Offered) -> str:
    """In one line, for the page and for paper: what is shown."""
    request = view.request
    parts = [view.environment.title]
    if not view.definition.is_snapshot:
        parts += [f"{request.first} to {request.last}", f"by {request.resolution}"]
    if request.segment:
        parts.append(f"broken down by {dimension_title(request.segment, offered).lower()}")
    for chosen in request.filters:
        values = " or ".join(value_title(chosen.dimension, value) for value in chosen.values)
        parts.append(f"{dimension_title(chosen.dimension, offered)}: {values}")
    if view.definition.has_money:
        parts.append(request.currency)
    return " · ".join(parts)


def dimension_title(dimension: str, offered: Offered) -> str:
    return offered.dimensions.get(dimension) or title_of(dimension)


# How many test clocks a menu lists.
MOST_CLOCKS = 20
CURRENCIES = ("USD", "EUR", "GBP", "AUD", "CAD", "JPY", "BRL", "KRW", "CNY", "MXN", "SEK", "PLN")


async def offered_to(visit: Visit) -> Offered:
    database, project_id = visit.database, visit.project_id
    environments = [ViewEnvironment(one, one.capitalize(), visit.now) for one in Environment]
    for found in await newest_clocks(database, project_id, None, MOST_CLOCKS):
        clock = found.clock
        environments.append(ViewEnvironment(clock.id, f"Test clock: {clock.name or clock.id}", clock.now))
    experiments = await list_experiments(database, project_id)
    attributes = await chosen_attributes(database, project_id)
    dimensions = {EXPERIMENT + experiment.id: f"Experiment: {experiment.name}" for experiment in experiments}
    dimensions |= {ATTRIBUTE + attribute: f"Attribute: {attribute}" for attribute in attributes}
    return Offered(
        environments=environments,
        dimensions=dimensions,
        experiments=tuple(Choice(experiment.id, experiment.name) for experiment in experiments),
        usual=await usual_environment(visit.charts, project_id, visit.now),
    )
