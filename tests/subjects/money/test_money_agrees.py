"""The same in the database: events as they were stored, the facts of the charts, and the rows of the export."""

from hypothesis import HealthCheck, given, settings

from latchkey.domain.customers.customer import Customer
from latchkey.domain.customers.intake import take_in
from latchkey.domain.instants import DAY
from latchkey.domain.money.exchange_rates import DayRate, date_of
from latchkey.domain.money.pinned_rates import is_estimate
from latchkey.engine.changes import Change, Situation
from latchkey.engine.missing_rates import listed
from latchkey.engine.storage.catalog.catalogs import Catalogs
from latchkey.engine.storage.read_rows import load_projects
from latchkey.subjects.demo.usecases.project import add_catalog
from latchkey.subjects.money.usecases import take
from latchkey.subjects.projects.usecases import create_project
from tests.domain.money_lives import (
    LATE,
    Arrival,
    Report,
    arrivals,
    check_events,
    check_revenue,
    check_rows,
    moment,
    payments,
    sums_of,
    sums_of_rows,
)
from tests.engine.fixtures import Core
from tests.subjects.charts.stored_rows import agree


async def told(core: Core, one: Report) -> Customer:
    def apply(situation: Situation) -> Customer:
        return take_in(situation.customer, one, situation.now)

    claims = frozenset({(one.store, one.id)})
    change = Change(project_id=core.project_id, app_user_id="alice", apply=apply, create=True, claims=claims)
    return (await core.changes.make(change)).customer


def as_file(rates: tuple[DayRate, ...]) -> str:
    rows = "".join(f"{date_of(one.day)},{one.currency},{one.usd}\n" for one in rates)
    return f"date,currency,usd\n{rows}"


@given(told_of=arrivals())
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_what_is_stored_agrees_to_the_last_millionth(core: Core, told_of: list[Arrival]) -> None:
    project = await create_project(core.database, "Another", LATE)
    await add_catalog(core.database, project.id, LATE)
    core.project_id = project.id
    customer: Customer | None = None
    for place, one in enumerate(told_of):
        core.time = moment(place)
        if isinstance(one, tuple):
            if one:
                await take(core.database, as_file(one), "rates.csv", LATE, replace=True)
        else:
            customer = await told(core, one)
    if customer is None:
        return
    check_events(customer, await core.events())
    assert sums_of_rows(await agree(core.database, core.project_id)) == sums_of(payments(customer).values())
    async with core.database.acquire() as connection:
        found = await load_projects(connection, Catalogs(), {core.project_id})
    check_rows(customer, found[core.project_id].catalog)
    check_revenue(customer)
    paid = payments(customer).values()
    estimates = {one.price.currency for one in paid if one.terms and is_estimate(one.price, one.terms.rate)}
    noted = await listed(core.database, core.project_id, LATE - 190 * DAY)
    assert {one.currency for one in noted} == estimates
