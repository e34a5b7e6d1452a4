"""Charts and the overview, by API and as CSV."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date, timedelta
from typing import Annotated, Any, Literal

from fastapi import Depends, Path, Query, Request
from msgspec import DecodeError, Struct, ValidationError, json
from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError
from starlette.responses import Response

from latchkey.api.authentication import ChartsKey
from latchkey.api.body import RepeatedFieldError, check_distinct
from latchkey.api.models import without_nul
from latchkey.api.routing import Router, reply, shows
from latchkey.api.services import Provided
from latchkey.domain.customers.filter import single
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import USD, Environment
from latchkey.domain.refusal import Invalid
from latchkey.subjects.charts import render, wire
from latchkey.subjects.charts import usecases as charts
from latchkey.subjects.charts.render import chart_csv
from latchkey.subjects.charts.rules.chart import ChartRequest
from latchkey.subjects.charts.rules.chart_periods import today_of
from latchkey.subjects.charts.rules.chart_requests import MOST_FILTERS, MOST_VALUES, definition_of
from latchkey.subjects.charts.rules.definition import Definition
from latchkey.subjects.charts.rules.facts import Filter, Resolution, date_of
from latchkey.subjects.charts.usecases import missing_dimensions, read_options
from latchkey.usecases.customer_lists.listing import active_customers

router = Router(prefix="/v2/projects/{project_id}", tags=["V2 charts"])

_RESOLUTIONS = {
    "0": Resolution.DAY,
    "1": Resolution.WEEK,
    "2": Resolution.MONTH,
    "day": Resolution.DAY,
    "week": Resolution.WEEK,
    "month": Resolution.MONTH,
}
# Without a start date: so many days, weeks or months until the end date.
_DEFAULT_DAYS = {Resolution.DAY: 90, Resolution.WEEK: 26 * 7, Resolution.MONTH: 366}
# Names that the vendor has for dimensions of ours.
_ALIASES = {"product_duration": "duration", "product_identifier": "product", "product_id": "product"}
_LONGEST_JSON = 20_000
_LONGEST_SEGMENT = 255
# With the vendor's `realtime`, which makes no difference here.
_CHART_PARAMETERS = frozenset(
    {
        "realtime",
        "filters",
        "selectors",
        "aggregate",
        "currency",
        "resolution",
        "start_date",
        "end_date",
        "segment",
        "environment",
        "compare",
        "format",
    }
)
_OPTIONS_PARAMETERS = frozenset({"realtime", "environment"})
_OVERVIEW_PARAMETERS = frozenset({"currency", "environment"})
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
# No store is older. It keeps all arithmetic of dates within what a date can be.
_EARLIEST = date(1970, 1, 1)


def _written_as_day(value: Any) -> Any:
    """The library also takes epochs and instants for dates."""
    if isinstance(value, str) and not _DAY.fullmatch(value):
        raise PydanticCustomError("invalid", "A day is written like 2027-01-31.")
    return value


def _not_too_early(value: date | None) -> date | None:
    if value is not None and value < _EARLIEST:
        raise PydanticCustomError("invalid", f"The earliest day is {_EARLIEST}.")
    return value


ChartName = Annotated[str, Path(max_length=64, description="The name of a chart, such as `mrr`.", examples=["mrr"])]
_Text = Annotated[str, Field(max_length=_LONGEST_JSON), AfterValidator(without_nul)]
Realtime = Annotated[bool, Query(description="Accepted for the vendor's clients. All charts are up to date.")]
Currency = Annotated[str, Query(pattern=r"^[A-Z]{3}$", description="The currency of display.")]
EnvironmentName = Annotated[
    str,
    Field(max_length=255),
    AfterValidator(without_nul),
    Query(description="`production`, `sandbox`, or the id of a test clock."),
]
Day = Annotated[
    date | None,
    BeforeValidator(_written_as_day),
    AfterValidator(_not_too_early),
    Query(description="A day, as 2027-01-31 (UTC). Both days are included."),
]
FilterText = Annotated[
    _Text | None, Query(description='JSON text, such as `[{"name": "country", "values": ["DE", "AT"]}]`.')
]
SelectorText = Annotated[_Text | None, Query(description='JSON text, such as `{"revenue_type": "proceeds"}`.')]
AggregateText = Annotated[
    str | None,
    Query(
        pattern=r"^(average|total)(,(average|total))?$",
        description="`average`, `total`, or both with a comma: the answer has no values then.",
    ),
]
_Name = Annotated[str, Field(max_length=_LONGEST_SEGMENT), AfterValidator(without_nul)]
Segment = Annotated[_Name | None, Query(description="The dimension to break down by, such as `country`.")]
ResolutionId = Annotated[
    Literal["0", "1", "2", "day", "week", "month"], Query(description="0 or `day`, 1 or `week`, 2 or `month`.")
]
Compare = Annotated[bool, Query(description="Also the preceding period of equal length, as `previous`.")]
Format = Annotated[Literal["json", "csv"] | None, Query(description="`csv` for a table; or send `Accept: text/csv`.")]


def _or_csv(shown: dict[int | str, dict[str, Any]]) -> dict[int | str, dict[str, Any]]:
    shown[200]["content"]["text/csv"] = {"schema": {"type": "string"}}
    return shown


def _once_each(request: Request, known: frozenset[str]) -> None:
    """A parameter that is not known, or is given twice, is refused: ignored, the chart would be of something else."""
    single(request.query_params.multi_items(), known, several=(), what="This route")


class FilterBody(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    values: list[str]


class ChartQuery:
    """The query parameters of a chart."""

    def __init__(
        self,
        realtime: Realtime = True,
        filters: FilterText = None,
        selectors: SelectorText = None,
        aggregate: AggregateText = None,
        currency: Currency = USD,
        resolution: ResolutionId = "0",
        start_date: Day = None,
        end_date: Day = None,
        segment: Segment = None,
        environment: EnvironmentName = "production",
        compare: Compare = False,
    ) -> None:
        self.realtime = realtime
        self.filters = _filters(filters)
        self.selectors = _selectors(selectors)
        self.aggregates = _aggregates(aggregate)
        self.currency = currency
        self.resolution = _RESOLUTIONS[resolution]
        self.start_date, self.end_date = start_date, end_date
        self.segment = _ALIASES.get(segment, segment) if segment else None
        self.environment = environment_of(environment)
        self.compare = compare

    @property
    def dimensions(self) -> tuple[str, ...]:
        named = tuple(one.dimension for one in self.filters)
        return (*named, self.segment) if self.segment else named

    def unsupported(self, definition: Definition, missing: frozenset[str]) -> wire.UnsupportedParams:
        """`missing` are dimensions that the project does not have."""
        names = [one.dimension for one in self.filters if one not in self._filters(definition, missing)]
        allowed = self.segment == self._segment(definition, missing)
        return wire.UnsupportedParams(filters=names, segment=None if allowed else self.segment)

    def _filters(self, definition: Definition, missing: frozenset[str]) -> tuple[Filter, ...]:
        return tuple(
            one for one in self.filters if definition.allows_filter(one.dimension) and one.dimension not in missing
        )

    def _segment(self, definition: Definition, missing: frozenset[str]) -> str | None:
        segment = self.segment
        return segment if segment and definition.allows_segment(segment) and segment not in missing else None

    def request(self, definition: Definition, missing: frozenset[str], now: Ms) -> ChartRequest:
        """Without what the chart cannot do, and without days to come."""
        today = date_of(today_of(now))
        if self.start_date is not None and self.start_date > today:
            raise Invalid("start_date is after today.", param="start_date")
        last = min(self.end_date or today, today)
        first = self.start_date or _begin(last, self.resolution)
        return ChartRequest(
            name=definition.name,
            environment=self.environment,
            first=first,
            last=last,
            resolution=self.resolution,
            filters=self._filters(definition, missing),
            segment=self._segment(definition, missing),
            currency=self.currency,
            selectors=self.selectors,
            compare=self.compare,
        )


@router.get("/charts/{chart_name}", responses=_or_csv(shows(wire.Chart)))
async def read_chart(
    services: Provided,
    caller: ChartsKey,
    request: Request,
    chart_name: ChartName,
    query: Annotated[ChartQuery, Depends()],
    format: Format = None,
) -> Response:
    """A chart: its values by day, week or month, and the definition of what is counted. Filters and segments that the
    chart cannot do are ignored and named in `unsupported_params`. A parameter that is not known, or is given twice, is
    refused."""
    _once_each(request, _CHART_PARAMETERS)
    definition = definition_of(chart_name)
    now = services.now()
    time = await charts.time_of(services.database, caller.project_id, query.environment, now)
    missing = await missing_dimensions(services.database, caller.project_id, query.dimensions)
    asked = query.request(definition, missing, time)
    data = await charts.read_chart(services.charts, caller.project_id, asked, now)
    if format == "csv" or (format is None and _wants_csv(request)):
        name = f"{definition.name}-{data.request.first}-{data.request.last}.csv"
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(chart_csv(data, query.aggregates), headers=headers, media_type="text/csv")
    return reply(render.chart(data, query.aggregates, query.unsupported(definition, missing)))


@router.get("/charts/{chart_name}/options", responses=shows(wire.ChartOptions))
async def read_chart_options(
    services: Provided,
    caller: ChartsKey,
    request: Request,
    chart_name: ChartName,
    realtime: Realtime = True,  # noqa: ARG001 - the vendor has it; all charts are up to date
    environment: EnvironmentName = "production",
) -> Response:
    """What can be chosen for a chart: resolutions, segments, filters with their most frequent values, and selectors."""
    _once_each(request, _OPTIONS_PARAMETERS)
    wanted = environment_of(environment)
    await charts.time_of(services.database, caller.project_id, wanted, services.now())
    found = await read_options(services.charts, caller.project_id, wanted, chart_name, services.now())
    return reply(render.options(found))


@router.get("/metrics/overview", responses=shows(wire.OverviewMetrics))
async def read_overview_metrics(
    services: Provided,
    caller: ChartsKey,
    request: Request,
    currency: Currency = USD,
    environment: EnvironmentName = "production",
) -> Response:
    """The most important numbers: as of now, or over the last 28 days."""
    _once_each(request, _OVERVIEW_PARAMETERS)
    where, now = environment_of(environment), services.now()
    found = await charts.read_overview(services.charts, caller.project_id, where, currency, now)
    active = await active_customers(services.database, caller.project_id, where, now)
    return reply(render.overview(found, active, now))


def environment_of(name: str) -> str:
    known = {one.lower(): one.value for one in Environment}
    return known.get(name.lower(), name)


def _wants_csv(request: Request) -> bool:
    return request.headers.get("accept", "").split(";")[0].split(",")[0].strip().lower() == "text/csv"


def _begin(last: date, resolution: Resolution) -> date:
    first = last - timedelta(days=_DEFAULT_DAYS[resolution] - 1)
    return first.replace(day=1) if resolution is Resolution.MONTH else first


def _filters(text: str | None) -> tuple[Filter, ...]:
    if not text:
        return ()
    try:
        found = json.decode(text, type=list[FilterBody])
        check_distinct(text)
    except RepeatedFieldError as error:
        raise Invalid(f"A filter has the field {error.name!r} twice. Send it once.", param="filters") from None
    except (ValidationError, DecodeError):
        raise Invalid('filters is JSON such as [{"name": "country", "values": ["DE"]}].', param="filters") from None
    if len(found) > MOST_FILTERS or any(not 1 <= len(one.values) <= MOST_VALUES for one in found):
        raise Invalid(
            f"There are at most {MOST_FILTERS} filters, each with 1 to {MOST_VALUES} values.", param="filters"
        )
    _refuse_nul((text for one in found for text in (one.name, *one.values)), "filters")
    return tuple(Filter(_ALIASES.get(one.name, one.name), tuple(one.values)) for one in found)


def _selectors(text: str | None) -> dict[str, str]:
    if not text:
        return {}
    try:
        found = json.decode(text, type=dict[str, str])
        check_distinct(text)
    except RepeatedFieldError as error:
        raise Invalid(f"selectors has the field {error.name!r} twice. Send it once.", param="selectors") from None
    except (ValidationError, DecodeError):
        raise Invalid('selectors is JSON such as {"revenue_type": "proceeds"}.', param="selectors") from None
    _refuse_nul(found.values(), "selectors")
    return found


def _refuse_nul(texts: Iterable[str], param: str) -> None:
    """JSON can write it as an escape, and the database does not store it."""
    if any("\0" in one for one in texts):
        raise Invalid(f"{param} contains a NUL character.", param=param)


def _aggregates(text: str | None) -> tuple[str, ...]:
    if not text:
        return ()
    return tuple(dict.fromkeys(text.split(",")))
