"""The stored sums: whatever facts are written, replaced and folded, every question gets the plain sum of the facts."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from random import Random
from unittest.mock import patch

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from latchkey.domain.charts import merging
from latchkey.domain.charts.fact import Kind
from latchkey.domain.charts.sums import Amounts, Sum
from latchkey.domain.instants import DAY, HOUR
from latchkey.storage.charts.kinds import CODES, KINDS
from latchkey.storage.database import Database
from latchkey.usecases.access.projects import create_project
from latchkey.usecases.charts import folding
from tests.usecases.charts_facts import NOON, Books, answer, expected, put, some_books, some_question

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
    kept: Books = {}
    now = NOON - 2 * DAY
    for _ in range(chance.randrange(1, 8)):
        batch = some_books(chance)
        now += chance.choice((0, HOUR, 5 * HOUR, 20 * HOUR))
        with patch.object(folding, "FRESH_ROWS", fresh_rows), patch.object(merging, "MOST_ROWS", most_rows):
            await put(database, project_id, batch, now, fold=chance.random() < 0.4)
        kept |= batch
        for _ in range(8):
            question = some_question(chance)
            assert await answer(database, project_id, question, now) == expected(kept, question, now), question
        question = some_question(chance)
        for amounts in (Amounts.USD, Amounts.GROSS_USD, Amounts.NONE):
            asked = question._replace(amounts=amounts)
            found = await answer(database, project_id, asked, now)
            assert without_currency(found) == without_currency(expected(kept, asked, now)), asked
    # Later, without another batch: facts whose time has come count.
    later = now + chance.choice((HOUR, DAY, 21 * DAY))
    for _ in range(8):
        question = some_question(chance)
        assert await answer(database, project_id, question, later) == expected(kept, question, later), question


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
