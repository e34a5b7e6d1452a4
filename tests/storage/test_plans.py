"""Plans made while the tables are empty are kept when the tables have grown: they must be good from the start."""

from __future__ import annotations

from itertools import pairwise

import pytest

from latchkey.storage.database import Database
from latchkey.storage.deliveries import parts
from tests.storage.plans import conditions, plan_of

pytestmark = pytest.mark.one_server("it reads plans, which are those of the functions on the nodes there")

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
        "bytea, bigint, text, integer, text[]",
        ["(hash = ", "(app_user_id = ", "(id = a.customer_id)"],
    ),
    "lock_customers": ("text[], text[]", ["(app_user_id = ", "(id = a.customer_id)"]),
    "look_at_customers": ("text, text[], text[], text[]", ["(app_user_id = ", "(id = a.customer_id)", "(store_id = "]),
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


# Statements on partitioned tables, with the types of their parameters, and the lookups each must make in every
# partition: the columns of an index condition.
PARTED = {
    "claim_lanes": (
        "bigint[], integer[], bigint, bigint, bigint",
        {"deliveries": "project_id, customer_id, webhook_key, sequence", "events": "id"},
    ),
    "record_attempts": (
        "text, text, text, text, text, text, text, text, text, text, text, text, text, text, json[], text, text, text,"
        " json[], bytea[], bigint",
        {"deliveries": "project_id, customer_id, webhook_key, sequence"},
    ),
    "events_of_project": ("text, bigint, integer", {"events": "project_id, position"}),
    "event_by_id": ("text, text", {"events": "id"}),
    "known_events": ("text[], text[]", {"events": "id"}),
    "newest_events_of_customer": (
        "text, bigint, bigint, bigint, bigint, integer",
        {"events": "customer_id, project_id, sequence"},
    ),
    "page_of_deliveries": (
        "bigint, bigint, bigint, bigint, bigint, text, text, integer, integer, integer, integer",
        {"deliveries": "webhook_key, created_at", "events": "customer_id, project_id, sequence"},
    ),
    "attempts_of_delivery": (
        "text, bigint, bigint, bigint",
        {"attempts": "project_id, customer_id, webhook_key, sequence"},
    ),
    "requeue_deliveries": (
        "text, bigint, text, bigint, bigint[], bigint[], text[], text[], bigint[], text",
        {"deliveries": "project_id, customer_id, webhook_key, sequence"},
    ),
    "prune_deliveries": (
        "bigint, bigint, integer, integer",
        {
            "deliveries": "project_id, customer_id, webhook_key, sequence",
            "attempts": "project_id, customer_id, webhook_key, sequence",
        },
    ),
}


@pytest.mark.parametrize("name", PARTED)
async def test_every_partition_is_searched_by_a_whole_key(database: Database, name: str) -> None:
    """With null for each parameter a plan has all partitions that the parameters alone do not rule out."""
    types, lookups = PARTED[name]
    for part in (1, 1000, 1001):
        await parts.open_part(database, part, 0)
    async with database.acquire() as connection:
        plan = await plan_of(connection, name, types)
    assert not any("Seq Scan" in line for line in plan), "\n".join(plan)
    for table, columns in lookups.items():
        found = 0
        for scan, condition in pairwise(plan):
            if f" on {table}_" not in scan or "Index" not in scan:
                continue
            found += 1
            assert "Index Cond" in condition, "\n".join(plan)
            assert all(f"{column} " in condition.replace('"', "") for column in columns.split(", ")), "\n".join(plan)
        assert found > 0, "\n".join(plan)
