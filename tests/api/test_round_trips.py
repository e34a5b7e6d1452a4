"""How often one lone request asks the database and waits: a purchase three times at most, a read once.

What the service writes about once a second for all requests together (the log of requests, when keys were used and
customers last seen) is no part of the request: it follows the answer. Counted between the service and PostgreSQL. BEGIN
and COMMIT are round trips too, and so is the preparation of a statement, which happens once for each connection.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest

from bench.tap import Tap, one_line
from latchkey.storage.database import Database
from latchkey.storage.sql import all_queries
from tests.api.client import Reply, Shop
from tests.api.conftest import opened
from tests.databases import DemoShelf

pytestmark = pytest.mark.one_server("it counts round trips to one server")

# The first request prepares its statements. Of the others the cheapest counts: periodic work of the service, which is
# no part of the request, may fall into any of them.
REQUESTS = 4
NAMES = {one_line(one.text.encode()): one.name for one in all_queries().values()}
# Who may ask, what is there, and one statement that writes everything.
PURCHASE = ["admit_requests", "look_at_customers", "write_changes"]
READ = ["admit_reads"]


@dataclass
class Tapped:
    shop: Shop
    tap: Tap

    async def statements(self, ask: Callable[[int], Awaitable[Reply]]) -> list[str]:
        """What the cheapest of some lone requests asked the database."""
        asked = []
        for number in range(REQUESTS):
            before = len(self.tap.trips)
            reply = await ask(number)
            assert reply.status == 200, reply
            asked.append([NAMES.get(trip.statement, trip.statement) for trip in self.tap.trips[before:]])
        return min(asked[1:], key=len)

    async def buy(self, app_user_id: str, product_id: str) -> Reply:
        body = {"action": "purchase", "app_user_id": app_user_id, "product_id": product_id}
        return await self.shop.client.post(f"/v2/projects/{self.shop.project_id}/test_store/actions", body)


@pytest.fixture
async def tapped(demo_shelf: DemoShelf) -> AsyncIterator[Tapped]:
    """The shop behind a proxy that counts, with one webhook."""
    async with (
        demo_shelf.shelf.lend() as database,
        Tap(database.url) as tap,
        Database(tap.url) as counted,
        opened(counted, demo_shelf.demo) as shop,
    ):
        webhook = {"name": "Counted", "url": "https://93.184.216.34/hook"}
        made = await shop.client.post(f"/v2/projects/{shop.project_id}/integrations/webhooks", webhook)
        assert made.status == 201, made
        yield Tapped(shop, tap)


async def test_a_purchase_of_a_new_customer_takes_three_round_trips_at_most(tapped: Tapped) -> None:
    asked = await tapped.statements(lambda number: tapped.buy(f"new{number}", "pro_monthly"))
    assert asked == PURCHASE
    assert await tapped.shop.database.pool.fetchval("select count(*) from deliveries") == REQUESTS


async def test_a_purchase_of_a_known_customer_takes_three_round_trips_at_most(tapped: Tapped) -> None:
    for number in range(REQUESTS):
        await tapped.buy(f"known{number}", "pro_monthly")
    asked = await tapped.statements(lambda number: tapped.buy(f"known{number}", "pro_yearly"))
    assert asked == PURCHASE
    assert await tapped.shop.database.pool.fetchval("select count(*) from deliveries") == 2 * REQUESTS


async def test_a_receipt_of_a_phone_takes_three_round_trips_at_most(tapped: Tapped) -> None:
    async def show(number: int) -> Reply:
        body = {"app_user_id": f"phone{number}", "fetch_token": f"test_1_{number}", "product_id": "pro_monthly"}
        return await tapped.shop.client.post("/v1/receipts", body, key=tapped.shop.public)

    asked = await tapped.statements(show)
    assert asked == PURCHASE
    assert await tapped.shop.database.pool.fetchval("select count(*) from deliveries") == REQUESTS


async def test_a_read_takes_one_round_trip(tapped: Tapped) -> None:
    await tapped.buy("ada", "pro_monthly")
    for read in (tapped.shop.v1, tapped.shop.v2):
        asked = await tapped.statements(lambda _, read=read: read("ada"))  # type: ignore[misc]  # it binds `read`
        assert asked == READ
