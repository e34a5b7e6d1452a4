"""Charts and the overview, by API and as CSV."""

import re
from dataclasses import dataclass, fields
from datetime import date, timedelta
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Depends, Path, Query, Request
from msgspec import DecodeError, Struct, ValidationError, json
from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from latchkey.domain.instants import DAY, Ms
from latchkey.domain.purchases.purchase import USD, Environment
from latchkey.domain.refusal import Invalid
from latchkey.http.authentication import ChartsKey
from latchkey.http.body import RepeatedFieldError, check_distinct
from latchkey.http.models import CurrencyCode, without_nul
from latchkey.http.routing import Response, Router, reply, shows
from latchkey.subjects.charts import render, wire
from latchkey.subjects.charts import usecases as charts
from latchkey.subjects.charts.rules.chart import ChartRequest
from latchkey.subjects.charts.rules.chart_requests import MOST_FILTERS, MOST_VALUES, definition_of
from latchkey.subjects.charts.rules.definition import METRICS, Definition
from latchkey.subjects.charts.rules.facts import Filter, Resolution, date_of
from latchkey.subjects.segments.rules.filter import single
from latchkey.subjects.segments.usecases.customer_lists import active_customers

router = Router(prefix="/v2/projects/{project_id}", tags=["V2 charts"])

_RESOLUTIONS = {name: one for place, one in enumerate(Resolution) for name in (str(place), one.value)}
# Without a start date: so many days, weeks or months until the end date.
_DEFAULT_DAYS = {Resolution.DAY: 90, Resolution.WEEK: 26 * 7, Resolution.MONTH: 366}
# Names that the vendor has for dimensions of ours.
_ALIASES = {"product_duration": "duration", "product_identifier": "product", "product_id": "product"}
OVERVIEW_DAYS = 28
_LONGEST_JSON = 20_000
_LONGEST_SEGMENT = 255
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
# No store is older. It keeps all arithmetic of dates within what a date can be.
_EARLIEST = date(1970, 1, 1)
T = TypeVar("T")


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
Currency = Annotated[CurrencyCode, Query(description="The currency of display.")]
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


def _once_each(request: Request, *known: str) -> None:
    """A parameter that is not known, or is given twice, is refused: ignored, the chart would be of something else."""
    single(request.query_params.multi_items(), frozenset(known), several=(), what="This route")


class FilterBody(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    values: list[str]


@dataclass(frozen=True, slots=True)
class ChartQuery:
    """The query parameters of a chart."""

    realtime: Realtime = True
    filters: FilterText = None
    selectors: SelectorText = None
    aggregate: AggregateText = None
    currency: Currency = USD
    resolution: ResolutionId = "0"
    start_date: Day = None
    end_date: Day = None
    segment: Segment = None
    environment: EnvironmentName = "production"
    compare: Compare = False

    def request(self, definition: Definition, now: Ms) -> ChartRequest:
        """Without days to come. The chart may not have all its dimensions."""
        resolution, today = _RESOLUTIONS[self.resolution], date_of(now // DAY)
        if self.start_date is not None and self.start_date > today:
            raise Invalid("start_date is after today.", param="start_date")
        last = min(self.end_date or today, today)
        return ChartRequest(
            name=definition.name,
            environment=environment_of(self.environment),
            first=self.start_date or _begin(last, resolution),
            last=last,
            resolution=resolution,
            filters=_filters(self.filters),
            segment=_ALIASES.get(self.segment, self.segment) if self.segment else None,
            currency=self.currency,
            selectors=_selectors(self.selectors),
            compare=self.compare,
        )


@router.get("/charts/{chart_name}", responses=_or_csv(shows(wire.Chart)))
async def read_chart(
    call: ChartsKey, chart_name: ChartName, query: Annotated[ChartQuery, Depends()], format: Format = None
) -> Response:
    """A chart: its values by day, week or month, and the definition of what is counted. Filters and segments that the
    chart cannot do are ignored and named in `unsupported_params`. A parameter that is not known, or is given twice, is
    refused."""
    # With the vendor's `realtime`, which makes no difference here.
    _once_each(call.request, "format", *(field.name for field in fields(ChartQuery)))
    definition, now = definition_of(chart_name), call.now()
    time = await call.run(charts.time_of, environment_of(query.environment), now)
    asked = query.request(definition, time)
    aggregates = tuple(dict.fromkeys(query.aggregate.split(","))) if query.aggregate else ()
    supported, unsupported = await call.run(charts.supported, asked)
    data = await charts.read_chart(call.services.charts, call.project_id, supported, now)
    accepted = call.request.headers.get("accept", "").split(";")[0].split(",")[0].strip().lower()
    if format == "csv" or (format is None and accepted == "text/csv"):
        name = f"{definition.name}-{data.request.first}-{data.request.last}.csv"
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(render.chart_csv(data, aggregates), headers=headers, media_type="text/csv")
    return reply(render.chart(data, aggregates, unsupported))


@router.get("/charts/{chart_name}/options", responses=shows(wire.ChartOptions))
async def read_chart_options(
    call: ChartsKey,
    chart_name: ChartName,
    realtime: Realtime = True,  # noqa: ARG001 - the vendor has it; all charts are up to date
    environment: EnvironmentName = "production",
) -> Response:
    """What can be chosen for a chart: resolutions, segments, filters with their most frequent values, and selectors."""
    _once_each(call.request, "realtime", "environment")
    wanted = environment_of(environment)
    await call.run(charts.time_of, wanted, call.now())
    found = await charts.read_options(call.services.charts, call.project_id, wanted, chart_name, call.now())
    return reply(render.options(*found))


@router.get("/metrics/overview", responses=shows(wire.OverviewMetrics))
async def read_overview_metrics(
    call: ChartsKey, currency: Currency = USD, environment: EnvironmentName = "production"
) -> Response:
    """The most important numbers: as of now, or over the last 28 days."""
    _once_each(call.request, "currency", "environment")
    where, now = environment_of(environment), call.now()
    asked = METRICS, where, OVERVIEW_DAYS, currency, now
    found = await charts.read_last_days(call.services.charts, call.project_id, *asked)
    return reply(render.overview(found, await call.run(active_customers, where, now), now))


def environment_of(name: str) -> str:
    known = {environment.lower(): environment.value for environment in Environment}
    return known.get(name.lower(), name)


def _begin(last: date, resolution: Resolution) -> date:
    first = last - timedelta(days=_DEFAULT_DAYS[resolution] - 1)
    return first.replace(day=1) if resolution is Resolution.MONTH else first


def _filters(text: str | None) -> tuple[Filter, ...]:
    example = '[{"name": "country", "values": ["DE"]}]'
    found = _decoded(text or "[]", list[FilterBody], "filters", example, "A filter")
    if len(found) > MOST_FILTERS or any(not 1 <= len(entry.values) <= MOST_VALUES for entry in found):
        raise Invalid(
            f"There are at most {MOST_FILTERS} filters, each with 1 to {MOST_VALUES} values.", param="filters"
        )
    return tuple(Filter(_ALIASES.get(entry.name, entry.name), tuple(entry.values)) for entry in found)


def _selectors(text: str | None) -> dict[str, str]:
    return _decoded(text or "{}", dict[str, str], "selectors", '{"revenue_type": "proceeds"}', "selectors")


def _decoded(text: str, type: type[T], param: str, example: str, part: str) -> T:
    # As an escape it is no character of the parameter yet, and the database does not store it.
    if r"\u0000" in text:
        raise Invalid(f"{param} contains a NUL character.", param=param)
    try:
        found = json.decode(text, type=type)
        check_distinct(text)
    except RepeatedFieldError as error:
        raise Invalid(f"{part} has the field {error.name!r} twice. Send it once.", param=param) from None
    except (ValidationError, DecodeError):
        raise Invalid(f"{param} is JSON such as {example}.", param=param) from None
    return found
