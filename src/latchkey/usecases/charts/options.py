"""What a reader may choose for a chart in this project, by API and on pages: filters with their values, segments,
selectors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from latchkey.domain.charts.computing.asking import definition_of
from latchkey.domain.charts.definitions.definition import ATTRIBUTE, EXPERIMENT, Choice, Definition, title_of
from latchkey.domain.charts.definitions.listing import Dimension, Options
from latchkey.domain.instants import Ms
from latchkey.storage.charts import dimensions, progress
from latchkey.storage.charts.dimensions import Menu as Menu
from latchkey.storage.database import Database
from latchkey.storage.experiments import experiments
from latchkey.usecases.charts.reading import read_values
from latchkey.usecases.charts.roller import catch_up

# If the charts are at most this many events behind, a page waits for them.
SHORT_WAY = 2_000


async def chart_menu(database: Database, project_id: str) -> Menu:
    async with database.acquire() as connection:
        return await dimensions.load_menu(connection, project_id)


async def count_latest(database: Database, project_id: str, now: Ms) -> None:
    """Counts the events of the last second, if the roller has not done it yet: whoever has just bought something looks
    for it. A long way is left to the roller; the page says how far behind it is."""
    async with database.acquire() as connection:
        found = await progress.load(connection, project_id)
    if found is not None and 0 < found.head - found.position <= SHORT_WAY:
        await catch_up(database, project_id, now, most=SHORT_WAY)


# Values of one dimension.
MOST_VALUES = 100
# Of each of the two kinds of dimensions that a project makes itself.
MOST_DIMENSIONS = 50


async def read_options(database: Database, project_id: str, environment: str, name: str) -> Options:
    definition = definition_of(name)
    async with database.acquire() as connection:
        tests = await experiments.page(connection, project_id, None, MOST_DIMENSIONS)
    found: list[Dimension] = []
    plain = [*definition.filters, *(one for one in definition.segments if one not in definition.filters)]
    for id in plain:
        is_stored = id in definition.filters
        values = await read_values(database, project_id, environment, id, MOST_VALUES) if is_stored else []
        found.append(_dimension(definition, id, title_of(id), None, [Choice(one, one) for one in values]))
    for test in tests:
        variants = [Choice(one.id, one.id) for one in test.variants]
        found.append(_dimension(definition, EXPERIMENT + test.id, test.name, "Experiments", variants))
    for attribute in (await chart_menu(database, project_id)).attributes:
        id = ATTRIBUTE + attribute
        values = await read_values(database, project_id, environment, id, MOST_VALUES)
        found.append(_dimension(definition, id, attribute, "Attributes", [Choice(one, one) for one in values]))
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
    chosen = (await chart_menu(database, project_id)).attributes
    missing = {one for one in wanted if one.startswith(ATTRIBUTE) and one.removeprefix(ATTRIBUTE) not in chosen}
    async with database.acquire() as connection:
        for one in wanted:
            if one.startswith(EXPERIMENT):
                test = await experiments.load(connection, project_id, one.removeprefix(EXPERIMENT))
                if test is None:
                    missing.add(one)
    return frozenset(missing)


def _dimension(definition: Definition, id: str, title: str, group: str | None, values: list[Choice]) -> Dimension:
    # The value that stands for "not known" can be filtered by, too.
    named = tuple(one if one.id else Choice("", "Not known") for one in values)
    return Dimension(id, title, group, named, definition.allows_filter(id), definition.allows_segment(id))
