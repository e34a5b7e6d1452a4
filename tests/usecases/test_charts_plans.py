"""Charts are kept and read by index alone, with plans made while the tables were empty."""

from __future__ import annotations

import pytest

from latchkey.storage.database import Database
from tests.storage.plans import plan_of

pytestmark = [
    pytest.mark.one_server("it reads plans, which are those of the functions on the nodes there"),
    pytest.mark.thorough,
]

_FILTERS = ", ".join(["text[]"] * 7)
# Each query, the types of its parameters, the lookups it must make.
PLANS: dict[str, tuple[str, list[str]]] = {
    "charts_progress": ("text", ["(project_id = $1)"]),
    "take_rolls_behind": (
        "text, integer, boolean, bigint, bigint, bigint",
        [
            "(project_id > $1)",
            "feeds_pkey",
            "((project_id = r.project_id) AND (id > r.counted))",
            "((project_id = r.project_id) AND (id > l.counted))",
            "facet_marks_pkey",
        ],
    ),
    "rolls_batch": (
        "text[], bigint[], boolean[], boolean[], integer",
        [
            '(project_id = h.project_id) AND ("position" > h."position")',
            "(project_id = h.project_id) AND (id = ANY (",
            "Tid Scan on chart_marks m",
            "Tid Scan on facet_marks m",
            "Index Only Scan Backward using customers_pkey",
        ],
    ),
    "chart_newcomers": ("text[], bigint[], bigint[], integer", ["(id > a.counted) AND (id <= a.until)"]),
    "chart_subjects_of": (
        "text[], uuid[]",
        ["(project_id = asked.project_id) AND (subject = asked.subject)", "chart_dimensions_pkey", "chart_issues_pkey"],
    ),
    "chart_dimensions_of": ("text[], uuid[]", ["(digest = asked.digest)"]),
    "write_charts": (
        f"text, uuid[], text, bytea[], {', '.join(['text'] * 33)}, "
        "text[], bigint[], bigint[], bigint[], bigint[], bigint[], bigint[], bigint[], bigint[], integer[], "
        "bigint[], uuid[]",
        ["Tid Scan on chart_ahead a", "(clock = ''::text) AND (at <= r.passed_to)"],
    ),
    "take_chart_tail": ("text", ["(project_id = $1)"]),
    "chart_dimensions_by_id": ("text, integer[]", ["(project_id = $1) AND (id = asked.id)"]),
    "list_chart_blocks": ("text, smallint, smallint", ["(project_id = $1)"]),
    "load_chart_blocks": ("text, smallint[], text[], smallint[], bigint[]", ["(run = asked.run)"]),
    "replace_chart_blocks": (
        "text, smallint[], text[], smallint[], bigint[], text[], smallint[], smallint[], integer[], integer[], "
        "integer[], bigint[], bytea[], bytea[]",
        ["Tid Scan on chart_blocks b", "(run = old.run)"],
    ),
    "read_chart_blocks": (
        "text, text, smallint[], smallint[], smallint[], integer[], integer[], boolean[]",
        ["(cuboid = a.cuboid) AND (environment = $2) AND (kind = ANY ($3))"],
    ),
    "read_chart_spans": ("text, text, smallint[], smallint[], bigint[], integer[], integer[]", ["(run = asked.run)"]),
    "chart_values": ("text, text, text, text", ["(project_id = $1) AND (id = ", "(clock = $3)"]),
    "count_newcomers_of_project": ("text", ["(project_id = $1) AND (cuboid = ANY ("]),
    "chart_rest": (
        f"text, text, text, {_FILTERS}, text, text, text, smallint[], integer, integer, text, bigint",
        ["(project_id = $1) AND (kind = ANY ($14))", "(clock = $3) AND (at <= $18)", "using chart_dimensions_pkey"],
    ),
    "clear_charts": ("text, integer", ["Tid Scan on chart_blocks s", "Tid Scan on chart_tail s"]),
    "next_chart_subjects": ("text, uuid, integer", ["(project_id = $1) AND (subject > $2)"]),
}


@pytest.mark.parametrize("analyzed", [False, True])
@pytest.mark.parametrize("name", PLANS)
async def test_charts_look_rows_up_by_index(database: Database, name: str, analyzed: bool) -> None:
    """Also when the tables are known to be empty: then PostgreSQL would rather go through all of their no rows."""
    types, lookups = PLANS[name]
    async with database.acquire() as connection:
        if analyzed:
            await connection.execute("analyze")
        plan = "\n".join(await plan_of(connection, name, types))
    for lookup in lookups:
        assert lookup in plan, plan
    assert "Seq Scan" not in plan
    assert "Hash Join" not in plan
