"""Plans made while the tables are empty are kept when the tables have grown: they must be good from the start."""

from __future__ import annotations

import pytest

from latchkey.storage.database import Database
from tests.storage.plans import conditions, plan_of

# The queries of the hot paths, with the types of their parameters, and the lookups each must make by a whole key.
HOT = {
    "read_customers": ("text[], text[]", ["(app_user_id = ", "(id = a.customer_id)"]),
    "admit_reads": (
        "bytea[], integer[], integer[], text[]",
        ["(hash = ", "(app_user_id = ", "(id = a.customer_id)"],
    ),
    "admit_reads_with_leases": (
        "bytea[], integer[], integer[], integer[], integer[], integer[], integer[], bigint[], text[]",
        ["(hash = ", "(app_user_id = ", "(id = a.customer_id)"],
    ),
    "read_leased": (
        "bytea, xid, text, integer, text[]",
        ["(hash = ", "(app_user_id = ", "(id = a.customer_id)"],
    ),
    "lock_customers": ("text[], text[]", ["(app_user_id = ", "(id = a.customer_id)"]),
    "look_at_customers": (
        "text, text[], text[], text[], bytea[], xid[]",
        ["(app_user_id = ", "(id = a.customer_id)", "(store_id = ", "(hash = "],
    ),
    "owners_of_purchases": ("text[], text[], text[]", ["(store_id = "]),
    "offering_choice": ("text, text", ["(app_user_id = ", "(id = a.customer_id)", "(customer_id = a.customer_id)"]),
    "override_offering": ("text, text, text, bigint", ["(app_user_id = ", "(id = a.customer_id)"]),
    "clear_offering_override": ("text, text", ["(app_user_id = ", "(customer_id = a.customer_id)"]),
    "known_events": ("text[], text[]", ["(id = asked.id)"]),
}


@pytest.mark.parametrize("name", HOT)
async def test_a_plan_for_an_empty_table_looks_rows_up_by_their_whole_key(database: Database, name: str) -> None:
    types, lookups = HOT[name]
    async with database.acquire() as connection:
        plan = await plan_of(connection, name, types)
    for lookup in lookups:
        assert lookup in conditions(plan), "\n".join(plan)
    assert not any("Seq Scan" in line for line in plan), "\n".join(plan)
