"""The figures of a project at a given time, from the sums that the roller keeps. No customer or event is read."""

from __future__ import annotations

from collections import defaultdict

from latchkey.domain.figures.definitions import PERIODS
from latchkey.domain.figures.overview import Overview
from latchkey.domain.figures.report import Report
from latchkey.domain.figures.window import Sums, Window
from latchkey.domain.instants import DAY, HOUR, Ms
from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.refusal import Invalid, NotFound
from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.storage.database import Connection, Database
from latchkey.storage.figures import progress, sums
from latchkey.storage.figures.progress import Progress
from latchkey.usecases.figures.roller import AT_ONCE, roll


async def overview(database: Database, project_id: str, environment: Environment, days: int, now: Ms) -> Overview:
    """The cards and series of one of `domain.figures.PERIODS`. They lag by about a second; `as_of` is their time."""
    if days not in PERIODS:
        raise Invalid(f"A period has {', '.join(map(str, PERIODS[:-1]))} or {PERIODS[-1]} days.", param="days")
    window = Window(days, now)
    # One snapshot, so that no customer is counted twice or missed.
    async with database.transaction(isolation="repeatable_read", readonly=True) as connection:
        rolled = await _progress(connection, project_id)
        report = Report(window, await _sums(connection, project_id, environment, window, rolled.counted))
    behind = rolled.head - rolled.position
    return Overview(
        project_id=project_id,
        environment=environment,
        days=days,
        now=now,
        as_of=min(rolled.rolled_to, now) if behind else now,
        behind=behind,
        dates=window.dates,
        currencies=report.currencies,
        cards=report.cards(),
        series=report.series(),
    )


async def environments(database: Database, project_id: str) -> set[Environment]:
    """The environments in which anything was ever bought."""
    async with database.acquire() as connection:
        return await sums.environments(connection, project_id)


async def catch_up(database: Database, project_id: str, now: Ms, *, most: int = 20_000) -> bool:
    """Processes up to `most` events of the feed. Returns whether the figures are now up to date."""
    async with database.acquire() as connection:
        head = (await _progress(connection, project_id)).head
    catalogs = Catalogs()
    for _ in range(max(1, most // AT_ONCE)):
        more = await roll(database, catalogs, project_id, now, wait=True)
        async with database.acquire() as connection:
            position = (await _progress(connection, project_id)).position
        if position >= head and not more:
            return True
    return False


async def _progress(connection: Connection, project_id: str) -> Progress:
    found = await progress.load(connection, project_id)
    if found is None:
        raise NotFound(f"There is no project {project_id}.", param="project_id")
    return found


async def _sums(
    connection: Connection, project_id: str, environment: Environment, window: Window, counted: int
) -> Sums:
    before = window.previous_start - 1
    days = await sums.by_day(connection, project_id, environment, before, window.today)
    ahead, ahead_then = [
        await sums.between(connection, project_id, environment, at, (at // DAY + 1) * DAY)
        for at in (window.now, window.then)
    ]
    newcomers, newcomers_then = await _newcomers(connection, project_id, environment, window, counted)
    return Sums(days.pop(before, {}), days, ahead, ahead_then, newcomers, newcomers_then)


async def _newcomers(
    connection: Connection, project_id: str, environment: Environment, window: Window, counted: int
) -> tuple[dict[int, int], int]:
    """New customers by day, and those of the period before until the same hour. Customers who bought only in the
    sandbox count there; all others, buyers or not, count in production."""
    sandbox = await sums.sandbox_newcomers(connection, project_id, window.previous_start, window.today)
    hour, next_day = window.then_hour * HOUR, (window.then // DAY + 1) * DAY
    later = await sums.between(connection, project_id, Environment.SANDBOX, hour - 1, next_day)
    sandbox_then = sum(sandbox.get(day, 0) for day in range(window.previous_start, window.start))
    sandbox_then -= sum(tally.newcomers for tally in later.values())
    if environment is Environment.SANDBOX:
        return sandbox, sandbox_then
    everybody: dict[int, int] = defaultdict(int)
    everybody_then = 0
    for one in await sums.newcomers(
        connection, project_id, window.previous_start, window.today, window.then_hour, counted, window.now
    ):
        everybody[one.day] += one.customers
        everybody_then += one.before_hour
    # Not below zero: an erased customer may be missing from the total count but still be in the sandbox count.
    production = {day: max(0, count - sandbox.get(day, 0)) for day, count in everybody.items()}
    return production, max(0, everybody_then - sandbox_then)
