"""Writes the demo's history: once, in one transaction, and without telling anybody.

The events are stored as events of the past. Charts and customer lists follow the feed and count them, but no
webhook gets a delivery of them.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from latchkey.database import transient_errors
from latchkey.database.pool import Connection, Database
from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.enrollment import Experiment, Variant
from latchkey.domain.instants import DAY, Ms
from latchkey.engine.storage import records
from latchkey.engine.storage.catalog import offering_rows
from latchkey.engine.storage.catalog.app_rows import APPS
from latchkey.engine.storage.catalog.catalogs import Catalogs
from latchkey.engine.storage.catalog.offering_rows import EXPERIMENTS
from latchkey.engine.storage.read_rows import load_projects
from latchkey.engine.storage.records import Newcomer, Stored
from latchkey.engine.storage.writes import Writes, write
from latchkey.engine.unit_of_work import UnitOfWork
from latchkey.subjects.demo import storage
from latchkey.subjects.demo.usecases import market
from latchkey.subjects.demo.usecases.lives import BETTER, DemoLife, live
from latchkey.subjects.demo.usecases.market import DAYS, DemoPerson, Till, people
from latchkey.subjects.demo.usecases.project import HISTORY, HISTORY_RUN
from latchkey.subjects.imports.usecases import runs
from latchkey.subjects.money.usecases import change_fees, load_fees, take
from latchkey.wire.event import Event

RATES_SOURCE = "made up for the demo"
EXPERIMENT = Experiment("exp_demo_paywall", "Yearly plan first", (Variant("control", 1), Variant(BETTER, 1)))
# Days for which the experiment has been running.
_EXPERIMENT_DAYS = 150
# So many lives are told before others get their turn: about 10 ms.
_AT_ONCE = 20


@dataclass(slots=True)
class History:
    """Everything that is written. Customers are in the order of their first start; -1 stands for the first."""

    newcomers: list[Newcomer] = field(default_factory=list)
    # What belongs to purchases.
    writes: list[Writes] = field(default_factory=list)
    # In the order in which they happened.
    events: list[tuple[int, Event]] = field(default_factory=list)

    @property
    def last_event_id(self) -> str | None:
        return self.events[-1][1].id if self.events else None


async def is_wanted(database: Database, project_id: str) -> bool:
    """Whether `want_history` asked for one and it is not written yet."""
    run = await runs.find_run(database, project_id, HISTORY)
    return run is not None and run.status != "done"


async def tell(database: Database, project_id: str, now: Ms, days: int = DAYS) -> History:
    """The history up to `now`, to be written. Exchange rates, fees and the experiment are written here."""
    await _prepare(database, project_id, now)
    async with database.acquire() as connection:
        catalog = (await load_projects(connection, Catalogs(), {project_id}))[project_id].catalog
        apps: dict[str, str] = {one.store: one.id for one in await APPS.page(connection, project_id)}
    return await told(project_id, catalog, apps, now, days)


async def write_history(database: Database, project_id: str, history: History, now: Ms) -> None:
    """All of it or nothing."""
    async with transient_errors.hot_transaction(database) as connection:
        counts = {"new customers": len(history.newcomers), "events": len(history.events)}
        await runs.finish_run(connection, project_id, HISTORY_RUN, counts, now)
        await _write(connection, project_id, history, now)


async def told(project_id: str, catalog: Catalog, apps: Mapping[str, str], now: Ms, days: int = DAYS) -> History:
    """The history up to `now`. Nothing is written. Given the same arguments, it is always the same; later on the same
    day it is the same and a little more."""
    history = History()
    began = (now // DAY - _EXPERIMENT_DAYS) * DAY
    waiting: list[DemoPerson] = []
    for person in people(project_id, now // DAY - days, now):
        waiting.append(person)
        if len(waiting) == _AT_ONCE:
            _tell(history, waiting, catalog, apps, began, now)
            waiting = []
            await asyncio.sleep(0)
    _tell(history, waiting, catalog, apps, began, now)
    # Sorting is stable: events of one customer at the same instant keep their order.
    history.events.sort(key=lambda one: one[1].event_timestamp_ms)
    return history


def _tell(
    history: History, people: Sequence[DemoPerson], catalog: Catalog, apps: Mapping[str, str], began: Ms, now: Ms
) -> None:
    if not people:
        return
    unit, before = UnitOfWork(now), len(history.newcomers)
    offerings = frozenset(offering.lookup_key for offering in catalog.offerings.offerings)
    for place, person in enumerate(people, start=1):
        life = DemoLife(unit, Stored(-place, person.customer), catalog, now)
        till = Till(person.store, apps.get(person.store), person.country, person.chance, offerings)
        live(life, person, till, EXPERIMENT, began)
    (writes,) = unit.plan().writes
    for person, made in zip(people, writes.created, strict=True):
        history.newcomers.append(Newcomer(made.after, made.due_at, person.last_seen(_seen(person, made.due_at, now))))
    history.events += ((who - before, event) for who, event in writes.events)
    for rows in (writes.owned, writes.coins, writes.periods):
        _renumber(rows, lambda who: who - before)
    history.writes.append(writes)


def _renumber(rows: list[Any], number: Callable[[int], int]) -> None:
    rows[:] = [structs.replace(row, who=number(row.who)) for row in rows]


def _seen(person: DemoPerson, due_at: Ms | None, now: Ms) -> Ms:
    """When the app was last opened: lately by those who have access, soon after the first start by most others."""
    first, chance = person.customer.first_seen_at, person.chance
    lately = max(first, now - int(chance.expovariate(1 / 2) * DAY))
    if due_at is not None:
        return lately
    seen = first + int(chance.expovariate(1 / 20) * DAY)
    return seen if seen <= now else lately


async def _prepare(database: Database, project_id: str, now: Ms) -> None:
    """Exchange rates, tax and commission, and the experiment. What is known already stays as it is."""
    first_day = now // DAY - DAYS
    await take(database, market.rate_file(first_day, now // DAY), RATES_SOURCE, now, keep_known=True)
    known = await load_fees(database, project_id)
    if not known.enrolments and not known.percentages:
        await change_fees(
            database, project_id, programs=market.programs(first_day), percentages=market.percentages(first_day)
        )
    async with database.transaction() as connection:
        if await EXPERIMENTS.find(connection, project_id, EXPERIMENT.id) is None:
            began = (now // DAY - _EXPERIMENT_DAYS) * DAY
            await offering_rows.create_experiment(connection, project_id, structs.replace(EXPERIMENT, created_at=began))


async def _write(connection: Connection, project_id: str, history: History, now: Ms) -> None:
    made = await records.create_all(connection, project_id, history.newcomers)
    keys = [one.key for one in made]
    gathered = Writes(project_id)
    for writes in history.writes:
        for name in ("owned", "transactions", "coins", "periods", "failures"):
            getattr(gathered, name).extend(getattr(writes, name))
    for rows in (gathered.owned, gathered.coins, gathered.periods):
        _renumber(rows, lambda who: keys[-who - 1])
    await write(connection, gathered, now)
    # Last: this holds the feed's lock until the commit.
    await storage.add_events(connection, project_id, [(keys[-who - 1], event) for who, event in history.events], now)
