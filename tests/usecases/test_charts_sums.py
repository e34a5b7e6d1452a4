"""The stored sums: whatever facts are written, replaced and folded, every question gets the plain sum of the facts."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from random import Random
from unittest.mock import patch
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from latchkey.domain.charts import merging
from latchkey.domain.charts.cuboids import FULL
from latchkey.domain.charts.fact import NO_MONEY, Amounts, Dimensions, Fact, Filter, Kind, Question, Resolution, Sum
from latchkey.domain.charts.facts.subject import Origin
from latchkey.domain.charts.merging import quarter_of
from latchkey.domain.instants import DAY, HOUR
from latchkey.storage.charts import answering, blocks
from latchkey.storage.charts.kinds import CODES, KINDS
from latchkey.storage.database import Database
from latchkey.usecases.access.projects import create_project
from latchkey.usecases.charts import folding
from latchkey.usecases.charts.books import Contributed
from latchkey.usecases.charts.reading import reading
from tests.usecases.charts_facts import NOON, Books, answer, expected, in_order, put, some_books, some_question

pytestmark = pytest.mark.thorough

_numbers = itertools.count()


async def new_project(database: Database) -> str:
    project_id = f"proj_{next(_numbers)}"
    await create_project(database, "Shop", NOON, project_id=project_id)
    return project_id


@settings(
    max_examples=25, derandomize=True, deadline=None, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(seed=st.integers(0, 2**32))
async def test_every_question_gets_the_plain_sum_of_the_facts(database: Database, seed: int) -> None:
    chance = Random(seed)
    project_id = await new_project(database)
    # Few rows stay in fresh blocks, or all of them do; and merges stop early, or never.
    fresh_rows, most_rows = chance.choice((1, 5, 100_000)), chance.choice((3, 100_000))
    # What is large is split by quarters: nearly everything, or nothing.
    split_rows = chance.choice((0, 2, 100_000))
    # The number that answers are grouped by is kept small after every column, or never needs to be.
    most_groups = chance.choice((1, answering.MOST_GROUPS))
    kept: Books = {}
    now = NOON - 2 * DAY
    for _ in range(chance.randrange(1, 8)):
        batch = some_books(chance)
        now += chance.choice((0, HOUR, 5 * HOUR, 20 * HOUR))
        with (
            patch.object(folding, "FRESH_ROWS", fresh_rows),
            patch.object(merging, "MOST_ROWS", most_rows),
            patch.object(merging, "SPLIT_ROWS", split_rows),
        ):
            await put(database, project_id, batch, now, fold=chance.random() < 0.4)
        kept |= batch
        for _ in range(8):
            question = some_question(chance)
            with patch.object(answering, "MOST_GROUPS", most_groups):
                found = await answer(database, project_id, question, now)
            assert found == expected(kept, question, now), question
        # Questions about other days and periods of the same facts share what is read.
        _, _, first, last, *_ = some_question(chance)
        several = [
            (question := some_question(chance)),
            question._replace(first=first, last=last),
            question._replace(resolution=Resolution.MONTH, largest=None),
        ]
        async with reading(database, project_id, several, now) as opened:
            for one in several:
                assert in_order((await opened.answer([one])).sums) == expected(kept, one, now), one
        question = some_question(chance)
        for amounts in (Amounts.USD, Amounts.GROSS_USD, Amounts.DISPLAY, Amounts.NONE):
            asked = question._replace(amounts=amounts, currency="EUR" if amounts is Amounts.DISPLAY else "USD")
            found = await answer(database, project_id, asked, now)
            assert without_currency(found) == without_currency(expected(kept, asked, now)), asked
    # Later, without another batch: facts whose time has come count.
    later = now + chance.choice((HOUR, DAY, 21 * DAY))
    for _ in range(8):
        question = some_question(chance)
        assert await answer(database, project_id, question, later) == expected(kept, question, later), question


@settings(
    max_examples=8, derandomize=True, deadline=None, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(seed=st.integers(0, 2**32))
async def test_what_goes_to_the_cuboids_while_more_is_folded_counts_once(database: Database, seed: int) -> None:
    chance = Random(seed)
    project_id = await new_project(database)
    kept: Books = {}

    async def batch() -> folding.Part | None:
        books = some_books(chance)
        await put(database, project_id, books, NOON)
        kept.update(books)
        async with database.transaction() as connection:
            return await folding.fold_tail(connection, project_id, NOON)

    done: list[bool] = []
    with patch.object(folding, "FRESH_ROWS", 1):
        for _ in range(4):
            part = await batch()
            if part is None:
                continue
            # Two processes compute it without a lock, and more is folded meanwhile.
            async with database.transaction(isolation="repeatable_read", readonly=True) as connection:
                changes = [await folding.cubed(connection, project_id, part) for _ in range(2)]
            await batch()
            for change in changes:
                async with database.transaction() as connection:
                    done.append(await folding.put(connection, project_id, change))
            for _ in range(4):
                question = some_question(chance)
                assert await answer(database, project_id, question, NOON) == expected(kept, question, NOON), question
    assert done == [True, False] * (len(done) // 2)


async def test_what_is_large_is_stored_by_quarters_so_a_question_reads_those_of_its_days(database: Database) -> None:
    project_id = await new_project(database)
    today = NOON // DAY
    # Each batch has cohorts of two years, as renewals have.
    with patch.object(folding, "FRESH_ROWS", 1), patch.object(merging, "SPLIT_ROWS", 5):
        for batch in range(2):
            facts = [
                Fact(Kind.RETAINED, (today - 90 * place) * DAY, batch, "", 1, NO_MONEY, Dimensions(country="DE"))
                for place in range(8)
            ]
            books = {UUID(int=batch + 1): Contributed("PRODUCTION", Origin("", "", ""), facts)}
            await put(database, project_id, books, NOON, fold=True)
    stored = await database.pool.fetch(
        "select cuboid, first_day, last_day, rows from chart_blocks where project_id = $1", project_id
    )
    assert all(quarter_of(row["first_day"]) == quarter_of(row["last_day"]) for row in stored)
    # Merged within the quarter, so there is one for each.
    assert len([row for row in stored if row["cuboid"] == FULL.number]) == 8
    half = Question("PRODUCTION", (Kind.RETAINED,), today - 180, today, Resolution.DAY, (Filter("country", ("DE",)),))
    with patch.object(blocks, "spans", wraps=blocks.spans) as spans:
        found = await answer(database, project_id, half, NOON)
    assert sum(row.quantity for row in found) == 2 * 3
    [((*_, read), _)] = spans.call_args_list
    assert len(read) == 3


def without_currency(sums: Iterable[Sum]) -> dict[object, list[int]]:
    """What is left of sums without their currencies, which are kept only of facts without an exchange rate: of such a
    fact in a stored sum, or alone."""
    found: dict[object, list[int]] = {}
    for row in sums:
        money = row.money
        amounts = [row.quantity, *money]
        for key, values in ((row[:4], amounts), ((*row[:4], row.currency), [money.unconverted])):
            known = found.get(key, [0] * len(values))
            found[key] = [a + b for a, b in zip(known, values, strict=True)]
    return {key: values for key, values in found.items() if any(values)}


def test_every_kind_has_a_number_of_its_own() -> None:
    assert set(CODES) == set(Kind)
    assert len(KINDS) == len(CODES)
