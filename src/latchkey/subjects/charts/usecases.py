"""The charts of a project, and what a reader may choose for each."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from latchkey.domain.charts.period_rows import attributes_of, enrollments_of
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import USD, Environment
from latchkey.domain.refusal import Invalid, NotFound
from latchkey.domain.tariff.rates import GOOD_FOR_DAYS, NO_RATES, Rates
from latchkey.storage.catalog import catalogs
from latchkey.storage.database import Connection, Database
from latchkey.storage.experiments import experiments
from latchkey.storage.money import rates as stored_rates
from latchkey.storage.sandbox import clocks
from latchkey.subjects.charts.rules.chart import ChartData, ChartRequest
from latchkey.subjects.charts.rules.chart_list import Dimension, Options
from latchkey.subjects.charts.rules.chart_periods import today_of
from latchkey.subjects.charts.rules.chart_requests import (
    before,
    by_month,
    checked,
    definition_of,
    is_wide,
    questions_of,
)
from latchkey.subjects.charts.rules.compute import compute, largest_segments
from latchkey.subjects.charts.rules.definition import ATTRIBUTE, EXPERIMENT, Choice, Definition, title_of
from latchkey.subjects.charts.rules.facts import Amounts, Question, Resolution, Run, date_of, day_of
from latchkey.subjects.charts.storage import chart_tables
from latchkey.subjects.charts.storage.fact_cache import FactCache
from latchkey.subjects.charts.storage.project_facts import ProjectFacts

# The overview counts flows over this many days, today included.
OVERVIEW_DAYS = 28
# What the overview shows: the charts' own names.
OVERVIEW = ("trials", "actives", "mrr", "arr", "revenue", "customers_new", "customers_paying")


async def read_chart(books: FactCache, project_id: str, request: ChartRequest, now: Ms) -> ChartData:
    """`now` is the present; in the environment of a test clock the clock's time takes its place."""
    database = books.database
    time = await time_of(database, project_id, request.environment, now)
    request = checked(request, time)
    request = replace(request, compare=request.compare and definition_of(request.name).has_comparison)
    rates = await _rates(database, request)
    variants = await _variants(database, project_id, request)
    book = await books.book(project_id, now)
    runs, earlier = await asyncio.to_thread(_answered, book, request, time, rates)
    return replace(compute(request, runs, time, rates=rates, earlier=earlier, variants=variants), as_of=time)


def _answered(book: ProjectFacts, request: ChartRequest, now: Ms, rates: Rates) -> tuple[list[Run], list[Run]]:
    """Of the request, and of the time before if it compares."""
    largest = None
    answers = [book.ask(one, now) for one in questions_of(request, rates)]
    if is_wide(request):
        rough = by_month(request)
        few = questions_of(rough, rates)[0].resolution
        largest = largest_segments(rough, [run for one in answers for run in one.runs(by=few)], now, rates=rates)
    asked = questions_of(before(request), rates) if request.compare else ()
    earlier = [run for one in asked for run in book.ask(one, now).runs(largest=largest)]
    return [run for one in answers for run in one.runs(largest=largest)], earlier


async def read_overview(
    books: FactCache, project_id: str, environment: str, currency: str, now: Ms, *, compare: bool = False
) -> Mapping[str, ChartData]:
    """By name: the charts of OVERVIEW over the last OVERVIEW_DAYS, by day, with one reading of the facts."""
    time = await time_of(books.database, project_id, environment, now)
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
    return await read_together(books, project_id, asked, now)


async def read_together(
    books: FactCache, project_id: str, requests: Sequence[ChartRequest], now: Ms
) -> Mapping[str, ChartData]:
    """Several charts by name, with one reading of the facts. They have the same environment, days, currency and
    comparison, and neither filters nor segments; none of them is a snapshot, a heat map or an experiment."""
    time = await time_of(books.database, project_id, requests[0].environment, now)
    asked = [checked(one, time) for one in requests]
    now_asked = _together(asked)
    earlier_asked = _together([before(one) for one in asked]) if asked[0].compare else ()
    book = await books.book(project_id, now)
    runs = await asyncio.to_thread(lambda: [run for one in now_asked for run in book.ask(one, time).runs()])
    earlier = await asyncio.to_thread(lambda: [run for one in earlier_asked for run in book.ask(one, time).runs()])
    rates = await _rates(books.database, replace(asked[0], name="mrr"))
    found: dict[str, ChartData] = {}
    for one in asked:
        kinds = definition_of(one.name).kinds
        data = compute(
            one,
            [run for run in runs if run.kind in kinds],
            time,
            rates=rates,
            earlier=[run for run in earlier if run.kind in kinds],
        )
        found[one.name] = replace(data, as_of=time)
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


# Values of one dimension.
MOST_VALUES = 100
# Of each of the two kinds of dimensions that a project makes itself.
MOST_DIMENSIONS = 50


async def chosen_attributes(database: Database, project_id: str) -> list[str]:
    async with database.acquire() as connection:
        return await chart_tables.chosen_attributes(connection, project_id) or []


async def choose_attributes(database: Database, project_id: str, names: Sequence[str]) -> None:
    """Charts can be filtered and broken down by these customer attributes from now on."""
    async with database.transaction() as connection:
        # A customer counts as changed when one of these changes, so every process must know them: part of the catalog.
        await catalogs.announce(connection, project_id)
        await chart_tables.choose_attributes(connection, project_id, sorted(set(names)))


async def keep_erased(connection: Connection, key: int, customer: Customer, attributes: Sequence[str]) -> None:
    """Before a customer is erased: the sales stay, under a key that names nobody. `attributes`: those that the project
    has chosen for charts."""
    kept = enrollments_of(customer), attributes_of(customer, attributes)
    await chart_tables.keep_erased(connection, customer.project_id, key, *kept)


async def usual_environment(books: FactCache, project_id: str, now: Ms) -> Environment:
    """The sandbox while everything was bought there."""
    book = await books.book(project_id, now)
    in_production, in_sandbox = await asyncio.to_thread(lambda: [book.has_sales(one) for one in Environment])
    return Environment.SANDBOX if in_sandbox and not in_production else Environment.PRODUCTION


async def read_values(
    books: FactCache, project_id: str, environment: str, dimensions: Iterable[str], now: Ms
) -> dict[str, list[str]]:
    """The values that facts have in each dimension, the most frequent first."""
    book = await books.book(project_id, now)
    return await asyncio.to_thread(lambda: {one: book.values(environment, one, MOST_VALUES) for one in dimensions})


async def read_options(books: FactCache, project_id: str, environment: str, name: str, now: Ms) -> Options:
    definition, database = definition_of(name), books.database
    async with database.acquire() as connection:
        tests = await experiments.page(connection, project_id, None, MOST_DIMENSIONS)
    attributes = await chosen_attributes(database, project_id)
    tagged = [ATTRIBUTE + one for one in attributes]
    values = await read_values(books, project_id, environment, [*definition.filters, *tagged], now)
    plain = dict.fromkeys((*definition.filters, *definition.segments))
    found = [_dimension(definition, id, title_of(id), None, _choices(values.get(id, ()))) for id in plain]
    for test in tests:
        variants = _choices(one.id for one in test.variants)
        found.append(_dimension(definition, EXPERIMENT + test.id, test.name, "Experiments", variants))
    for id, title in zip(tagged, attributes, strict=True):
        found.append(_dimension(definition, id, title, "Attributes", _choices(values[id])))
    choices = tuple(Choice(one.id, one.name) for one in tests)
    selectors = tuple(
        replace(one, choices=choices, default=choices[0].id if choices else "") if one.name == "experiment" else one
        for one in definition.selectors
    )
    return Options(replace(definition, selectors=selectors), tuple(found))


async def missing_dimensions(database: Database, project_id: str, asked: Iterable[str]) -> frozenset[str]:
    """Those of experiments and attributes that this project does not have. Nothing is counted by them, so a chart would
    show a 0 that means nothing."""
    wanted = {one for one in asked if one.startswith((EXPERIMENT, ATTRIBUTE))}
    if not wanted:
        return frozenset()
    chosen = await chosen_attributes(database, project_id)
    missing = {one for one in wanted if one.startswith(ATTRIBUTE) and one.removeprefix(ATTRIBUTE) not in chosen}
    async with database.acquire() as connection:
        for one in wanted:
            if one.startswith(EXPERIMENT):
                test = await experiments.load(connection, project_id, one.removeprefix(EXPERIMENT))
                if test is None:
                    missing.add(one)
    return frozenset(missing)


def _choices(ids: Iterable[str]) -> list[Choice]:
    return [Choice(one, one) for one in ids]


def _dimension(definition: Definition, id: str, title: str, group: str | None, values: list[Choice]) -> Dimension:
    # The value that stands for "not known" can be filtered by, too.
    named = tuple(one if one.id else Choice("", "Not known") for one in values)
    return Dimension(id, title, group, named, definition.allows_filter(id), definition.allows_segment(id))
