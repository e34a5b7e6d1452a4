"""What a reader may choose for a chart in this project, by API and on pages: filters with their values, segments,
selectors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace

from latchkey.domain.charts.computing.asking import definition_of
from latchkey.domain.charts.definitions.definition import ATTRIBUTE, EXPERIMENT, Choice, Definition, title_of
from latchkey.domain.charts.definitions.listing import Dimension, Options
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import Environment
from latchkey.storage.catalog import catalogs
from latchkey.storage.charts import rows
from latchkey.storage.database import Database
from latchkey.storage.experiments import experiments
from latchkey.usecases.charts.books import Books

# Values of one dimension.
MOST_VALUES = 100
# Of each of the two kinds of dimensions that a project makes itself.
MOST_DIMENSIONS = 50


async def chosen_attributes(database: Database, project_id: str) -> list[str]:
    async with database.acquire() as connection:
        return await rows.chosen_attributes(connection, project_id) or []


async def choose_attributes(database: Database, project_id: str, names: Sequence[str]) -> None:
    """Charts can be filtered and broken down by these customer attributes from now on."""
    async with database.transaction() as connection:
        # A customer counts as changed when one of these changes, so every process must know them: part of the catalog.
        await catalogs.announce(connection, project_id)
        await rows.choose_attributes(connection, project_id, sorted(set(names)))


async def usual_environment(books: Books, project_id: str, now: Ms) -> Environment:
    """The sandbox while everything was bought there."""
    book = await books.book(project_id, now)
    in_production, in_sandbox = await asyncio.to_thread(lambda: [book.has_sales(one) for one in Environment])
    return Environment.SANDBOX if in_sandbox and not in_production else Environment.PRODUCTION


async def read_values(
    books: Books, project_id: str, environment: str, dimensions: Iterable[str], now: Ms
) -> dict[str, list[str]]:
    """The values that facts have in each dimension, the most frequent first."""
    book = await books.book(project_id, now)
    return await asyncio.to_thread(lambda: {one: book.values(environment, one, MOST_VALUES) for one in dimensions})


async def read_options(books: Books, project_id: str, environment: str, name: str, now: Ms) -> Options:
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
