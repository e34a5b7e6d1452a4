"""Every customer of a project, page by page."""

from __future__ import annotations

import pytest

from latchkey.domain.customers.customer import newcomer
from latchkey.storage.customers import records as customers
from latchkey.storage.sql import query
from tests.api.client import NOW, Shop
from tests.api.management import walk


async def test_an_id_of_any_signs_is_a_cursor_that_leads_on(shop: Shop) -> None:
    ids = ["$RCAnonymousID:0123456789abcdef0123456789abcdef", "a b", "a%2Fb", "a&limit=1", "a+b", "ünïcödé 🎟"]
    for id in ids:
        await shop.note(id, plan="x")
    listed = [item["id"] for item in await walk(shop, "customers?limit=1")]
    assert sorted(listed) == sorted(ids)


async def test_a_thousand_customers_are_walked_each_once(shop: Shop) -> None:
    ids = [f"user {n:04}" for n in range(1000)]
    async with shop.database.transaction() as connection:
        await customers.create(connection, [newcomer(shop.project_id, id, NOW) for id in ids])
    assert [item["id"] for item in await walk(shop, "customers?limit=100")] == ids


@pytest.mark.one_server("it reads plans, which are those of the functions on the nodes there")
async def test_a_page_is_read_along_the_index(shop: Shop) -> None:
    async with shop.database.transaction() as connection:
        made = [newcomer(shop.project_id, f"user {n:05}", NOW) for n in range(5000)]
        await customers.create(connection, made)
        await connection.execute("analyze customers, aliases")
        plan = await connection.fetch(f"explain {query('list_customers')}", shop.project_id, "user 02500", 101)
    words = "\n".join(row[0] for row in plan)
    assert "aliases_pkey" in words
    assert "app_user_id > " in next(line for line in words.splitlines() if "Index Cond" in line)
