"""The hot pool keeps plans that it made while the tables were empty: they must be good from the start. Elsewhere
PostgreSQL plans with statistics, and must find the indexes of large tables."""

import re
from itertools import pairwise

import pytest

from latchkey.database.pool import Database
from latchkey.database.sql import query
from latchkey.subjects.webhooks.storage import lanes as parts
from tests.database.plans import conditions, plan_of

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
    "known_events": ("text[], text[]", ["(id = asked.id)"]),
}


@pytest.mark.parametrize("name", HOT)
async def test_a_plan_for_an_empty_table_looks_rows_up_by_their_whole_key(database: Database, name: str) -> None:
    types, lookups = HOT[name]
    async with database.at_hand() as connection:
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
    "known_events": ("text[], text[]", {"events": "id"}),
    "disown_lanes": ("text, text[]", {"events": "id"}),
    "forget_deliveries": (
        "text, text[], text",
        {
            "deliveries": "project_id, customer_id, webhook_key, sequence",
            "attempts": "project_id, customer_id, webhook_key, sequence",
            "events": "id",
        },
    ),
}


@pytest.mark.parametrize("name", PARTED)
async def test_every_partition_is_searched_by_a_whole_key(database: Database, name: str) -> None:
    """With null for each parameter a plan has all partitions that the parameters alone do not rule out."""
    types, lookups = PARTED[name]
    for part in (1, 1000, 1001):
        await parts.open_part(database, part, 0)
    async with database.at_hand() as connection:
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


# Queries of pages, exports and erasure: the types of their parameters, and a customer or an event as arguments.
PAGES = {
    "events_of_project": ("text, bigint, bigint, integer", "'p', 20000, 9000000, 50"),
    "events_of_customer": ("text, bigint, bigint, integer", "'p', 5001, 0, 50"),
    "events_after_event": ("text, text, integer, integer", "'p', 'e7777', 100, 0"),
    "event_by_id": ("text, text", "'p', 'e7777'"),
    "shown_event": ("text, text", "'p', 'e7777'"),
    "newest_events_of_customer": ("text, bigint, bigint, bigint, bigint, integer", "'p', 5001, null, null, null, 20"),
    "listed_events": ("text, bigint, bigint, text, text, bigint", "'p', 30000, 20000, null, null, 20"),
    "listed_events_of_customer": ("text, bigint, bigint, text, text, integer", "'p', 5001, 90000, null, null, 20"),
    "listed_events_of_clock": ("text, text, integer, bigint, integer", "'p', 'c', 100, 90000, 20"),
    "events_after": ("text, bigint, bigint", "'p', 30000, 20"),
    "deliveries_of_events": ("text, bigint[], bigint[]", "'p', array[5001], array[0]"),
    "customers_on_clock": ("text, text, bigint", "'p', 'c', 20"),
    "newest_customers": ("text, bigint, bigint", "'p', 9000000, 20"),
    "customers_by_whole_id": ("text, text[]", "'p', array['user5001']"),
    "customers_by_start_of_id": ("text, text, text, integer", r"'p', E'p\x1fuser5', E'p\x1fuser6', 20"),
    "customers_by_email": ("text, text, text, bigint", "'p', 'e5', 'e6', 20"),
    "aliases_of_customer": ("text, bigint", "'p', 5001"),
    "delete_customer": ("text, bigint", "'p', 5001"),
    "facets_stretch": ("text[], bigint[], bigint[], integer", "array['p'], array[0], array[1000], 100"),
    "count_events_since": ("text, bigint", "'p', 39999"),
}
LARGE = "events_0|deliveries_0|customers|aliases|customer_emails|customer_facets"
FILL = """
insert into projects (id, name, created_at) values ('p', 'p', 0), ('q', 'q', 0);
insert into customers (project_id, id, app_user_id, state, first_seen_at, last_seen_at)
select case when n % 50 = 0 then 'q' else 'p' end, n, 'user' || n, '{}', 0, 0
from generate_series(1, 20000) as n;
insert into aliases (project_id, app_user_id, customer_id, created_at)
select project_id, app_user_id, id, 0 from customers;
insert into customer_emails (project_id, email, customer_id) select project_id, 'e' || id || '@x', id from customers;
insert into customer_facets
select project_id, id, 'PRODUCTION', null, 0, 0, 'US', null, null, null, null, null, null, null, true, false, 0, 0,
    '{}', '{}', '{}'
from customers;
insert into feeds (project_id, position) values ('p', 40000), ('q', 40000);
insert into events (
    project_id, position, id, customer_id, sequence, type, environment, occurred_at, committed_at, body
)
select case when n % 50 = 0 then 'q' else 'p' end, n, 'e' || n, n % 20000, n / 20000, 'RENEWAL', 'SANDBOX', n, n, '{}'
from generate_series(1, 40000) as n;
insert into deliveries (project_id, customer_id, webhook_key, sequence, event_id, event_type, created_at, partition)
select project_id, customer_id, 1, sequence, id, type, 0, 0 from events;
analyze;
"""


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
async def test_a_page_of_a_large_project_is_looked_up_by_index(database: Database, mode: str) -> None:
    await database.pool.execute(FILL)
    whole = {}
    async with database.acquire() as connection:
        for name, (types, arguments) in PAGES.items():
            async with connection.transaction(readonly=name != "delete_customer"):
                await connection.execute(f"set local plan_cache_mode = {mode}")
                await connection.execute(f"prepare it ({types}) as {query(name)}")
                rows = [row[0] for row in await connection.fetch(f"explain execute it ({arguments})")]
                await connection.execute("deallocate it")
            plan = "\n".join(rows)
            # A lookup by the project alone would read all of it.
            if re.search(rf"Seq Scan on ({LARGE})|Index Cond: \(project_id = [^()]*\)$", plan, re.MULTILINE):
                whole[name] = plan
    assert not whole, "\n\n".join(f"{name}\n{plan}" for name, plan in whole.items())
