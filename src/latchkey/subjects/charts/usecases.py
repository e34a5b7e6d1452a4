"""The charts of a project, and what a reader may choose for each."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import timedelta

from msgspec.structs import replace

from latchkey.database.pool import Connection, Database
from latchkey.domain.charts.period_rows import attributes_of, enrollments_of
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.money.exchange_rates import GOOD_FOR_DAYS, NO_RATES, Rates
from latchkey.domain.purchases.purchase import USD, Environment
from latchkey.domain.refusal import Invalid, NotFound
from latchkey.engine.storage.catalog import catalogs
from latchkey.engine.storage.catalog import rates as stored_rates
from latchkey.engine.storage.catalog.offering_rows import EXPERIMENTS
from latchkey.subjects.charts import wire
from latchkey.subjects.charts.rules.chart import ChartData, ChartRequest
from latchkey.subjects.charts.rules.chart_requests import before, checked, definition_of, is_wide, questions_of
from latchkey.subjects.charts.rules.compute import NOT_KNOWN, compute, largest_segments
from latchkey.subjects.charts.rules.definition import ATTRIBUTE, EXPERIMENT, Choice, Definition, Dimension, title_of
from latchkey.subjects.charts.rules.facts import Amounts, Question, Resolution, Run, date_of, day_of
from latchkey.subjects.charts.storage import fact_cache
from latchkey.subjects.charts.storage.fact_cache import FactCache as FactCache
from latchkey.subjects.charts.storage.fact_cache import Reading as Reading
from latchkey.subjects.charts.storage.fact_cache import default_folder as default_folder
from latchkey.subjects.charts.storage.project_facts import ProjectFacts
from latchkey.subjects.test_clocks import usecases as clocks


async def read_chart(cache: FactCache | Reading, project_id: str, request: ChartRequest, now: Ms) -> ChartData:
    """`now` is the present; in the environment of a test clock the clock's time takes its place."""
    found = await read_charts(cache, project_id, [request], now)
    return found[request.name]


async def read_last_days(
    cache: FactCache | Reading,
    project_id: str,
    names: Iterable[str],
    environment: str,
    days: int,
    currency: str,
    now: Ms,
    *,
    compare: bool = False,
) -> dict[str, ChartData]:
    """By name, over the last days with today among them. A year is by week."""
    today = date_of(await time_of(cache.database, project_id, environment, now) // DAY)
    of_all = ChartRequest(
        name="",
        environment=environment,
        first=today - timedelta(days=days - 1),
        last=today,
        resolution=Resolution.DAY if days <= 92 else Resolution.WEEK,
        currency=currency,
        compare=compare,
    )
    return await read_charts(cache, project_id, [replace(of_all, name=name) for name in names], now)


async def read_charts(
    cache: FactCache | Reading, project_id: str, requests: Sequence[ChartRequest], now: Ms
) -> dict[str, ChartData]:
    """By name, with one reading of the facts. Several have the same environment, days, currency and comparison, and
    neither filters nor segments; none of them is a snapshot, a heat map or an experiment."""
    database = cache.database
    time = await time_of(database, project_id, requests[0].environment, now)
    requests = [checked(request, time) for request in requests]
    rates = await _rates(database, requests)
    variants = await _variants(database, project_id, requests[0])
    facts = await cache.facts(project_id, now)
    runs, earlier = await asyncio.to_thread(_answered, facts, requests, time, rates)
    found: dict[str, ChartData] = {}
    for request in requests:
        kinds = definition_of(request.name).kinds
        own, old = ([run for run in answer if run.kind in kinds] for answer in (runs, earlier))
        found[request.name] = compute(request, own, time, rates=rates, earlier=old, variants=variants)
    return found


def _answered(
    facts: ProjectFacts, requests: Sequence[ChartRequest], now: Ms, rates: Rates
) -> tuple[list[Run], list[Run]]:
    """Of the requests, and of the time before if they compare. A wide breakdown asks first, by month, which segments
    are the largest, and adds up all others."""
    request, largest = requests[0], None
    answers = [facts.ask(question, now) for question in _questions(requests, rates)]
    if is_wide(request):
        rough = replace(request, resolution=Resolution.MONTH, compare=False)
        resolution = questions_of(rough, rates)[0].resolution
        monthly = [run for answer in answers for run in answer.runs(by=resolution)]
        largest = largest_segments(rough, monthly, now, rates=rates)
    runs = [run for answer in answers for run in answer.runs(largest=largest)]
    old = _questions([before(request) for request in requests], rates) if request.compare else ()
    return runs, [run for question in old for run in facts.ask(question, now).runs(largest=largest)]


def _questions(requests: Sequence[ChartRequest], rates: Rates) -> tuple[Question, ...]:
    questions = questions_of(requests[0], rates)
    if len(requests) == 1:
        return questions
    kinds = tuple(dict.fromkeys(kind for request in requests for kind in definition_of(request.name).kinds))
    amounts = Amounts.USD if requests[0].currency == USD else Amounts.ALL
    return (questions[0]._replace(kinds=kinds, resolution=Resolution.DAY, amounts=amounts, any_n=()),)


async def time_of(database: Database, project_id: str, environment: str, now: Ms) -> Ms:
    """The time in an environment."""
    if environment in (Environment.PRODUCTION, Environment.SANDBOX):
        return now
    async with database.acquire() as connection:
        clock = await clocks.find_clock(connection, project_id, environment)
    if clock is None:
        raise Invalid(
            f"environment is production, sandbox, or the id of a test clock. There is no test clock "
            f"{environment[:40]!r} in this project.",
            param="environment",
        )
    return clock.now


async def _rates(database: Database, requests: Sequence[ChartRequest]) -> Rates:
    request = requests[0]
    if request.currency == USD or not any(definition_of(request.name).has_money for request in requests):
        return NO_RATES
    # As far back as the period that it is compared with, and as a rate counts.
    first = before(request).first if request.compare else request.first
    days = (request.last - first).days + GOOD_FOR_DAYS + 2
    found = await stored_rates.list_rates(database, request.currency, day_of(request.last), days)
    return NO_RATES.plus(stored.rate for stored in found)


async def _variants(database: Database, project_id: str, request: ChartRequest) -> Sequence[str]:
    """Of the chosen experiment, in their order."""
    id = request.selectors.get("experiment")
    if id is None:
        return ()
    if not id:
        raise Invalid("Choose an experiment with the selector 'experiment'.", param="selectors")
    async with database.acquire() as connection:
        found = await EXPERIMENTS.find(connection, project_id, id)
    if found is None:
        raise NotFound(f"There is no experiment {id[:40]!r} in this project.", param="selectors")
    return [one.id for one in found.variants]


# Values of one dimension.
MOST_VALUES = 100
# Of each of the two kinds of dimensions that a project makes itself.
MOST_DIMENSIONS = 50


async def chosen_attributes(database: Database, project_id: str) -> list[str]:
    return await fact_cache.chosen_attributes(database, project_id) or []


async def choose_attributes(database: Database, project_id: str, names: Sequence[str]) -> None:
    """Charts can be filtered and broken down by these customer attributes from now on."""
    async with database.transaction() as connection:
        # A customer counts as changed when one of these changes, so every process must know them: part of the catalog.
        await catalogs.announce(connection, project_id)
        await fact_cache.choose_attributes(connection, project_id, sorted(set(names)))


async def keep_erased(connection: Connection, key: int, customer: Customer, attributes: Sequence[str]) -> None:
    """Before a customer is erased: the sales stay, under a key that names nobody. `attributes`: those that the project
    has chosen for charts."""
    kept = enrollments_of(customer), attributes_of(customer, attributes)
    await fact_cache.keep_erased(connection, customer.project_id, key, *kept)


async def usual_environment(cache: FactCache | Reading, project_id: str, now: Ms) -> Environment:
    """The sandbox while everything was bought there."""
    facts = await cache.facts(project_id, now)
    in_production, in_sandbox = await asyncio.to_thread(
        lambda: [facts.has_sales(environment) for environment in Environment]
    )
    return Environment.SANDBOX if in_sandbox and not in_production else Environment.PRODUCTION


async def read_values(
    cache: FactCache | Reading, project_id: str, environment: str, dimensions: Iterable[str], now: Ms
) -> dict[str, list[str]]:
    """The values that facts have in each dimension, the most frequent first."""
    facts = await cache.facts(project_id, now)
    return await asyncio.to_thread(
        lambda: {dimension: facts.values(environment, dimension, MOST_VALUES) for dimension in dimensions}
    )


async def read_options(
    cache: FactCache | Reading, project_id: str, environment: str, name: str, now: Ms
) -> tuple[Definition, list[Dimension]]:
    """The definition has the project's experiments as the choices of the selector `experiment`."""
    definition, database = definition_of(name), cache.database
    async with database.acquire() as connection:
        tests = await EXPERIMENTS.page(connection, project_id, None, MOST_DIMENSIONS)
    attributes = {ATTRIBUTE + name: name for name in await chosen_attributes(database, project_id)}
    values = await read_values(cache, project_id, environment, [*definition.filters, *attributes], now)

    def choices(ids: Iterable[str]) -> tuple[Choice, ...]:
        # The value that stands for "not known" can be filtered by, too.
        return tuple(Choice(id, id or NOT_KNOWN) for id in ids)

    plain = dict.fromkeys((*definition.filters, *definition.segments))
    dimensions = [
        *(Dimension(id, title_of(id), None, choices(values.get(id, ()))) for id in plain),
        *(
            Dimension(EXPERIMENT + test.id, test.name, "Experiments", choices(one.id for one in test.variants))
            for test in tests
        ),
        *(Dimension(id, title, "Attributes", choices(values[id])) for id, title in attributes.items()),
    ]
    return definition.with_experiments(tuple(Choice(test.id, test.name) for test in tests)), dimensions


async def supported(
    database: Database, project_id: str, request: ChartRequest
) -> tuple[ChartRequest, wire.UnsupportedParams]:
    """The request without what the chart cannot do, and that. An experiment or an attribute that this project does not
    have is such a thing: nothing is counted by it, so a chart would show a 0 that means nothing."""
    definition = definition_of(request.name)

    async def is_known(dimension: str) -> bool:
        if dimension.startswith(ATTRIBUTE):
            return dimension.removeprefix(ATTRIBUTE) in await chosen_attributes(database, project_id)
        if not dimension.startswith(EXPERIMENT):
            return True
        async with database.acquire() as connection:
            return await EXPERIMENTS.find(connection, project_id, dimension.removeprefix(EXPERIMENT)) is not None

    filters = tuple(
        [one for one in request.filters if definition.allows_filter(one.dimension) and await is_known(one.dimension)]
    )
    left = [one.dimension for one in request.filters if one not in filters]
    segment = request.segment
    if segment is None or (definition.allows_segment(segment) and await is_known(segment)):
        return replace(request, filters=filters), wire.UnsupportedParams(filters=left)
    return replace(request, filters=filters, segment=None), wire.UnsupportedParams(filters=left, segment=segment)
