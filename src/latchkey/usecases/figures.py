"""The figures of a project at a moment, read from sums that a roller keeps: no customer or event is looked at."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from latchkey.domain.figures import PERIODS
from latchkey.domain.figures_overview import Overview
from latchkey.domain.figures_report import Report
from latchkey.domain.figures_tally import Tally
from latchkey.domain.figures_window import Sums, Window
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.purchase import Environment
from latchkey.domain.refusal import Invalid, NotFound
from latchkey.storage.catalogs import Catalogs
from latchkey.storage.database import Database
from latchkey.storage.sql import query
from latchkey.usecases.figures_roller import AT_ONCE, roll

_PROGRESS = query("figures_progress")
_SUMS = query("figure_sums")
_REST = query("figure_rest")
_NEWCOMERS = query("newcomers_by_day")


async def overview(database: Database, project_id: str, environment: Environment, days: int, now: Ms) -> Overview:
    """The cards and series of one of `domain.figures.PERIODS`. Lags a second or so; `as_of` says how much."""
    if days not in PERIODS:
        raise Invalid(f"A period has {', '.join(map(str, PERIODS[:-1]))} or {PERIODS[-1]} days.", param="days")
    window = Window(days, now)
    # All from one moment: a customer is either counted already or still to be looked at, never both.
    async with database.transaction(isolation="repeatable_read", readonly=True) as connection:
        progress = await _progress(connection, project_id)
        sums = await _sums(connection, project_id, environment, window, progress["counted"])
    report = Report(window, sums)
    behind = progress["head"] - progress["position"]
    return Overview(
        project_id=project_id,
        environment=environment,
        days=days,
        now=now,
        as_of=min(progress["rolled_to"], now) if behind else now,
        behind=behind,
        dates=window.dates,
        currencies=report.currencies,
        cards=report.cards(),
        series=report.series(),
    )


async def catch_up(database: Database, project_id: str, now: Ms, *, most: int = 20_000) -> bool:
    """Take in what has happened so far, up to `most` events; whether that was all."""
    async with database.acquire() as connection:
        head = (await _progress(connection, project_id))["head"]
    catalogs = Catalogs()
    for _ in range(max(1, most // AT_ONCE)):
        more = await roll(database, catalogs, project_id, now, wait=True)
        async with database.acquire() as connection:
            position = (await _progress(connection, project_id))["position"]
        if position >= head and not more:
            return True
    return False


async def _progress(connection: Any, project_id: str) -> Any:
    progress = await connection.fetchrow(_PROGRESS, project_id)
    if progress is None:
        raise NotFound(f"There is no project {project_id}.", param="project_id")
    return progress


async def _sums(connection: Any, project_id: str, environment: Environment, window: Window, counted: int) -> Sums:
    before = window.previous_start - 1
    days: dict[int, dict[str, Tally]] = defaultdict(dict)
    for row in await connection.fetch(_SUMS, project_id, environment, before, window.today):
        days[row[0]][row[1]] = Tally(*row[2:])
    ahead, ahead_then = [
        {
            row[0]: Tally(*row[1:])
            for row in await connection.fetch(_REST, project_id, environment, at, (at // DAY + 1) * DAY)
        }
        for at in (window.now, window.then)
    ]
    newcomers: dict[int, int] = defaultdict(int)
    newcomers_then = 0
    for day, count, before_then in await connection.fetch(
        _NEWCOMERS, project_id, window.previous_start, window.today, window.then_hour, counted, window.now
    ):
        newcomers[day] += count
        newcomers_then += before_then
    return Sums(days.pop(before, {}), days, ahead, ahead_then, newcomers, newcomers_then)
