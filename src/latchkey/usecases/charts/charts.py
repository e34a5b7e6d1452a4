"""A chart of a project, from the sums that the roller keeps. No customer or event is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from latchkey.domain.charts.chart import ChartData, ChartRequest
from latchkey.domain.charts.computing.asking import (
    before,
    by_month,
    checked,
    definition_of,
    is_wide,
    narrowed,
    questions_of,
)
from latchkey.domain.charts.computing.compute import compute, largest_segments
from latchkey.domain.charts.computing.periods import today_of
from latchkey.domain.charts.fact import Amounts, Question, Resolution, date_of, day_of
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import USD, Environment
from latchkey.domain.refusal import Invalid, NotFound
from latchkey.domain.tariff.rates import GOOD_FOR_DAYS, NO_RATES, Rates
from latchkey.storage.database import Database
from latchkey.storage.experiments import experiments
from latchkey.storage.money import rates as stored_rates
from latchkey.storage.sandbox import clocks
from latchkey.usecases.charts.reading import reading

# The overview counts flows over this many days, today included.
OVERVIEW_DAYS = 28
# What the overview shows: the charts' own names.
OVERVIEW = ("trials", "actives", "mrr", "arr", "revenue", "customers_new", "customers_paying")


async def read_chart(database: Database, project_id: str, request: ChartRequest, now: Ms) -> ChartData:
    """`now` is the present; in the environment of a test clock the clock's time takes its place."""
    time = await time_of(database, project_id, request.environment, now)
    request = checked(request, time)
    definition = definition_of(request.name)
    compares = request.compare and definition.has_comparison
    request = replace(request, compare=compares)
    rates = await _rates(database, request)
    asked, largest = questions_of(request, rates), None
    rough = by_month(request) if is_wide(request) else None
    rough_asked = questions_of(rough, rates) if rough is not None else ()
    earlier_asked = questions_of(before(request), rates) if compares else ()
    async with reading(database, project_id, [*rough_asked, *asked, *earlier_asked], now) as opened:
        if rough is not None:
            found = await opened.answer(rough_asked)
            largest = largest_segments(rough, found.runs, time, rates=rates)
        answer = await opened.answer(narrowed(asked, largest))
        earlier = await opened.answer(narrowed(earlier_asked, largest))
    data = compute(
        request,
        answer.runs,
        time,
        rates=rates,
        earlier=earlier.runs,
        variants=await _variants(database, project_id, request),
    )
    return replace(data, as_of=answer.as_of, behind=answer.behind, is_rebuilding=answer.rebuilding)


async def read_overview(
    database: Database, project_id: str, environment: str, currency: str, now: Ms, *, compare: bool = False
) -> Mapping[str, ChartData]:
    """By name: the charts of OVERVIEW over the last OVERVIEW_DAYS, by day, with one reading of the sums."""
    time = await time_of(database, project_id, environment, now)
    today = date_of(today_of(time))
    asked = [
        ChartRequest(
            name=name,
            environment=environment,
            first=today - timedelta(days=OVERVIEW_DAYS - 1),
            last=today,
            currency=currency,
            compare=compare,
        )
        for name in OVERVIEW
    ]
    return await read_together(database, project_id, asked, now)


async def read_together(
    database: Database, project_id: str, requests: Sequence[ChartRequest], now: Ms
) -> Mapping[str, ChartData]:
    """Several charts by name, with one reading of the sums. They have the same environment, days, currency and
    comparison, and neither filters nor segments; none of them is a snapshot, a heat map or an experiment."""
    time = await time_of(database, project_id, requests[0].environment, now)
    asked = [checked(one, time) for one in requests]
    now_asked = _together(asked)
    earlier_asked = _together([before(one) for one in asked]) if asked[0].compare else ()
    async with reading(database, project_id, [*now_asked, *earlier_asked], now) as opened:
        answer, earlier = await opened.answer(now_asked), await opened.answer(earlier_asked)
    rates = await _rates(database, replace(asked[0], name="mrr"))
    found: dict[str, ChartData] = {}
    for one in asked:
        kinds = definition_of(one.name).kinds
        data = compute(
            one,
            [run for run in answer.runs if run.kind in kinds],
            time,
            rates=rates,
            earlier=[run for run in earlier.runs if run.kind in kinds],
        )
        found[one.name] = replace(data, as_of=answer.as_of, behind=answer.behind, is_rebuilding=answer.rebuilding)
    return found


async def time_of(database: Database, project_id: str, environment: str, now: Ms) -> Ms:
    """The time in an environment."""
    if environment in (Environment.PRODUCTION, Environment.SANDBOX):
        return now
    async with database.acquire() as connection:
        clock = await clocks.load(connection, project_id, environment)
    if clock is None:
        raise Invalid(
            f"environment is production, sandbox, or the id of a test clock. There is no test clock "
            f"{environment[:40]!r} in this project.",
            param="environment",
        )
    return clock.now


def _together(requests: Sequence[ChartRequest]) -> tuple[Question, ...]:
    """One question for all of them: they have the same days and no filters."""
    kinds = tuple(dict.fromkeys(kind for one in requests for kind in definition_of(one.name).kinds))
    amounts = Amounts.USD if requests[0].currency == USD else Amounts.ALL
    asked = questions_of(requests[0])[0]
    return (asked._replace(kinds=kinds, resolution=Resolution.DAY, amounts=amounts, any_n=()),)


async def _rates(database: Database, request: ChartRequest) -> Rates:
    if request.currency == USD or not definition_of(request.name).has_money:
        return NO_RATES
    # As far back as the period that it is compared with, and as a rate counts.
    first = before(request).first if request.compare else request.first
    days = (request.last - first).days + GOOD_FOR_DAYS + 2
    async with database.acquire() as connection:
        found = await stored_rates.listed(connection, request.currency, day_of(request.last), days)
    return NO_RATES.plus(one.rate for one in found)


async def _variants(database: Database, project_id: str, request: ChartRequest) -> Sequence[str]:
    """Of the chosen experiment, in their order."""
    id = request.selectors.get("experiment")
    if id is None:
        return ()
    if not id:
        raise Invalid("Choose an experiment with the selector 'experiment'.", param="selectors")
    async with database.acquire() as connection:
        found = await experiments.load(connection, project_id, id)
    if found is None:
        raise NotFound(f"There is no experiment {id[:40]!r} in this project.", param="selectors")
    return [one.id for one in found.variants]
