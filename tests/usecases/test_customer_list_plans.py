"""A list is planned with its filter."""

from __future__ import annotations

import pytest

from latchkey.domain.customers.filter import EVERYBODY, Filter, Sort
from latchkey.storage.customer_lists import reading
from latchkey.storage.database import Database
from latchkey.storage.sql import query

pytestmark = [
    pytest.mark.one_server("it reads plans, which are those of the functions on the nodes there"),
    pytest.mark.thorough,
]

NOW = 1_800_000_000_000


@pytest.fixture
async def crowd(database: Database) -> Database:
    """20,000 customers, of whom one in a hundred is on trial."""
    await database.pool.execute(
        """
        insert into customer_facets
        select 'proj_crowd', n, 'PRODUCTION', null, $1::bigint - n * 1000, $1 - n * 500,
            case n % 20 when 0 then 'LI' else 'US' end,
            case when n % 3 = 0 then $1 + n end, null, case when n % 100 = 0 then $1 + n * 1000 end,
            null, null, null, null,
            n % 3 = 0, false, n % 1000, 0, case when n % 500 = 0 then array['rare'] else '{}' end,
            case when n % 500 = 0 then array[$1 + n] else '{}'::bigint[] end,
            case when n % 500 = 1 then array['amazon'] when n % 3 = 0 then array['stripe'] else '{}' end
        from generate_series(1, 20000) as n
        """,
        NOW,
    )
    await database.pool.execute("analyze customer_facets")
    return database


@pytest.mark.parametrize(
    ("wanted", "sort", "index"),
    [
        (EVERYBODY, Sort.LAST_SEEN, "customer_facets_last_seen"),
        (EVERYBODY, Sort.FIRST_SEEN, "customer_facets_first_seen"),
        (EVERYBODY, Sort.SPENT, "customer_facets_spent"),
        (EVERYBODY, Sort.KEY, "customer_facets_pkey"),
        (Filter(country="LI"), Sort.LAST_SEEN, "customer_facets_country"),
        (Filter(product_id="rare"), Sort.LAST_SEEN, "customer_facets_bought"),
        (Filter(store="amazon"), Sort.LAST_SEEN, "customer_facets_bought"),
        (Filter(store="amazon"), Sort.KEY, "customer_facets_bought"),
        (Filter(store="stripe"), Sort.LAST_SEEN, "customer_facets_last_seen"),
        (Filter(trial_ends_within=1), Sort.SPENT, "customer_facets_trial"),
        (Filter(billing_issue=True), Sort.SPENT, "customer_facets_issue"),
    ],
)
async def test_a_list_uses_the_index_that_fits_its_filter(
    crowd: Database, wanted: Filter, sort: Sort, index: str
) -> None:
    async with crowd.transaction(readonly=True) as connection:
        await reading.plan_each(connection)
        rows = await connection.fetch(
            f"explain {query('list_facets')}",
            "proj_crowd", NOW, NOW, *reading.arguments(wanted, NOW), sort, NOW, 2**62, 51, False,
        )  # fmt: skip
    plan = "\n".join(row[0] for row in rows)
    assert index in plan, plan
    assert "Seq Scan" not in plan, plan
