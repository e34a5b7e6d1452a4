"""The queries of the events' and test clocks' pages look rows up by whole keys, also by plans made for empty tables."""

from __future__ import annotations

import pytest

from latchkey.storage.database import Database
from tests.storage.plans import conditions, plan_of

OWNER = ["(app_user_id = ", "(id = aliases.customer_id)"]
QUERIES = {
    "listed_events": ("text, bigint, bigint, text, text, bigint", ['("position" >= $3)', *OWNER]),
    "listed_events_of_customer": ("text, bigint, bigint, text, text, bigint", ["(customer_id = ANY", "(id = $2)"]),
    "listed_events_of_clock": ("text, text, bigint, bigint, bigint", ["(test_clock_id = $2)", "(customer_id = "]),
    "events_after": ("text, bigint, bigint", ['("position" > $2)', *OWNER]),
    "shown_event": ("text, text", ["(id = $2)", *OWNER]),
    "tally_deliveries": ("text, bigint[], bigint[], bigint[]", ["(customer_id = n.customer_id)"]),
    "listed_deliveries_of_event": ("text, bigint, bigint", ["(customer_id = $2)"]),
    "newest_clocks": ("text, text, bigint", ["(test_clock_id = t.id)"]),
    "customers_on_clock": ("text, text, bigint", ["(test_clock_id = $2)"]),
}


@pytest.mark.parametrize("name", QUERIES)
async def test_a_page_looks_rows_up_by_their_whole_key(database: Database, name: str) -> None:
    types, lookups = QUERIES[name]
    async with database.acquire() as connection:
        plan = await plan_of(connection, name, types)
    for lookup in lookups:
        assert lookup in conditions(plan), "\n".join(plan)
    assert not any("Seq Scan" in line or "Join Filter" in line for line in plan), "\n".join(plan)
