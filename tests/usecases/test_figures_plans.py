"""Figures are read and kept by index alone, with plans made while the tables were empty."""

from __future__ import annotations

import pytest

from latchkey.domain.figures.tally import Tally
from latchkey.storage.database import Database
from tests.storage.plans import plan_of

_LARGE = {"mrr", "paid", "refunded", "paid_usd", "refunded_usd", "mrr_usd"}
_LINE = ", ".join("bigint[]" if field in _LARGE else "smallint[]" for field in Tally._fields)
_DAY = ", ".join("bigint[]" for _ in Tally._fields)
WRITTEN = (
    "text[], uuid[], bigint[], text[], "
    f"text[], uuid[], bigint[], text[], text[], {_LINE}, "
    f"text[], text[], integer[], text[], {_DAY}, "
    "text[], bigint[], bigint[], bigint[], bigint[], bigint[], bigint[]"
)
# Each query, the types of its parameters, the lookups it must make.
PLANS: dict[str, tuple[str, list[str]]] = {
    "figures_progress": ("text", ["(project_id = $1)"]),
    "figure_sums": ("text, text, integer, integer", ["(environment = $2) AND (day <= $4)"]),
    "figure_rest": ("text, text, bigint, bigint", ["figure_lines_at", "(project_id = $1) AND (at > $3) AND (at < $4)"]),
    "newcomers_by_day": (
        "text, integer, integer, integer, bigint, bigint",
        ["(day >= $2) AND (day <= $3)", "((project_id = $1) AND (id > $5))"],
    ),
    "take_figures_behind": (
        "text, integer, boolean, bigint, bigint",
        [
            "(project_id > $1)",
            "feeds_pkey",
            "((project_id = r.project_id) AND (id > r.counted))",
            "using figure_marks_pkey",
        ],
    ),
    "figures_batch": (
        "text[], bigint[], integer",
        [
            '(project_id = h.project_id) AND ("position" > h."position")',
            "(project_id = h.project_id) AND (id = ANY (",
            "Tid Scan on figure_marks m",
            "Index Only Scan Backward using customers_pkey",
        ],
    ),
    "figure_lines_of": ("text[], uuid[]", ["(project_id = asked.project_id) AND (purchase = asked.purchase)"]),
    "write_figures": (
        WRITTEN,
        ["((project_id = n_1.project_id) AND (purchase = n_1.purchase))", "Tid Scan on figure_lines l"],
    ),
    "count_newcomers": (
        "text[], bigint[], bigint[], integer",
        ["(project_id = a_1.project_id) AND (id > a_1.counted) AND (id <= a_1.until)"],
    ),
}


@pytest.mark.parametrize("analyzed", [False, True])
@pytest.mark.parametrize("name", PLANS)
async def test_figures_look_rows_up_by_index(database: Database, name: str, analyzed: bool) -> None:
    """Also when the tables are known to be empty: then PostgreSQL would rather go through all of their no rows."""
    types, lookups = PLANS[name]
    async with database.acquire() as connection:
        if analyzed:
            await connection.execute("analyze")
        plan = "\n".join(await plan_of(connection, name, types))
    for lookup in lookups:
        assert lookup in plan, plan
    assert "Seq Scan" not in plan


@pytest.mark.parametrize("name", ["figures_progress", "figure_sums", "figure_rest", "newcomers_by_day"])
async def test_reading_figures_looks_at_no_event_and_no_customer_but_the_newest(database: Database, name: str) -> None:
    types, _ = PLANS[name]
    async with database.acquire() as connection:
        plan = await plan_of(connection, name, types)
    assert not any(" on events" in line for line in plan)
    by_key = [line for line in plan if " on customers" in line]
    assert all("using customers_pkey" in line for line in by_key)


async def test_newcomers_of_many_days_are_counted_in_one_pass(database: Database) -> None:
    """After an import customers were first seen on thousands of days. One look through all of them for each of 24 hours
    of each day took longer than a statement may."""
    types, _ = PLANS["count_newcomers"]
    async with database.acquire() as connection:
        plan = "\n".join(await plan_of(connection, "count_newcomers", types))
    # One for each project asked for; none over the days.
    assert plan.count("Nested Loop") == 1, plan
    # The one that adds two arrays of 24 hours.
    assert plan.count("SubPlan") == 1, plan
