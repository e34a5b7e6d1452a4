"""GET …/events and …/customers/{id}/events: everything that happened, oldest first, as delivered."""

import asyncio
from urllib.parse import quote

import pytest
from msgspec import json

from tests.http.client import Shop
from tests.http.doings import ANONYMOUS, did, show_receipt, told, unhurried
from tests.http.management import get, refused, walk


async def test_items_are_byte_for_byte_what_is_stored(shop: Shop) -> None:
    await shop.note("ada", plan="ünï 🎟")
    for product in ("pro_monthly", "team_monthly", "coins_100"):
        await did(shop, "purchase", "ada", product)
    rows = await shop.database.pool.fetch("select body::text from events order by position")
    stored = [row["body"].encode() for row in rows]
    for path in ("events", "customers/ada/events"):
        body = (await get(shop, path)).body
        items = body.split(b'"items":[', 1)[1].rsplit(b'],"next_page"', 1)[0]
        assert items == b",".join(stored)


async def test_a_cursor_at_the_end_waits_there_for_what_comes_next(shop: Shop) -> None:
    await show_receipt(shop, "ada", "test_1_a")
    [last] = await told(shop)
    path = f"events?starting_after={last['id']}"
    assert (await get(shop, path)).json()["items"] == []
    await show_receipt(shop, "bob", "test_1_b")
    assert [event["app_user_id"] for event in (await get(shop, path)).json()["items"]] == ["bob"]


@pytest.mark.parametrize(
    "path", ["events", "customers", "customers/ada/events", "customers/ada/attributes", "products"]
)
async def test_a_cursor_sent_empty_asks_for_the_first_page(shop: Shop, path: str) -> None:
    await show_receipt(shop, "ada", "test_1_a")
    first = (await get(shop, path)).json()
    assert (await get(shop, f"{path}?starting_after=")).json() == first


async def test_a_cursor_that_does_not_exist_is_404_and_a_stranger_too(steady_shop: Shop) -> None:
    refused(await get(steady_shop, "events?starting_after=none"), 404, "resource_missing", "starting_after")
    refused(await get(steady_shop, "customers/nobody/events"), 404, "resource_missing", "customer_id")
    for limit in ("0", "x", "-1", "1.5"):
        refused(await get(steady_shop, f"events?limit={limit}"), 400, "parameter_error", "limit")


async def test_a_reader_who_follows_a_busy_feed_misses_nothing_and_sees_nothing_twice(shop: Shop) -> None:
    await unhurried(shop)
    writing, users = True, 12

    async def write(who: str) -> None:
        for number in range(10):
            await show_receipt(shop, who, f"test_{number}_{who}", "coins_100")

    async def follow() -> list[str]:
        seen: list[str] = []
        while True:
            finished = not writing
            cursor = f"&starting_after={seen[-1]}" if seen else ""
            page = (await get(shop, f"events?limit=7{cursor}")).json()
            seen += [event["id"] for event in page["items"]]
            if finished and page["next_page"] is None:
                return seen
            await asyncio.sleep(0)

    readers = [asyncio.create_task(follow()) for _ in range(3)]
    await asyncio.gather(*(write(f"user{number}") for number in range(users)))
    writing = False
    feeds = await asyncio.gather(*readers)
    assert feeds[0] == feeds[1] == feeds[2]
    assert len(feeds[0]) == len(set(feeds[0])) == users * 10 * 2
    for number in range(users):
        assert [event["sequence"] for event in await told(shop, f"user{number}")] == list(range(1, 21))


async def test_after_a_merge_the_customers_feed_has_both_lives_and_starts_anywhere(shop: Shop) -> None:
    await show_receipt(shop, ANONYMOUS, "test_1_a")
    await show_receipt(shop, "ada", "test_1_b")
    await show_receipt(shop, ANONYMOUS, "test_1_c")
    await shop.client.post("/v1/subscribers/identify", {"app_user_id": ANONYMOUS, "new_app_user_id": "ada"})
    await show_receipt(shop, "ada", "test_1_d")
    events = await walk(shop, "customers/ada/events?limit=1")
    bought = [event.get("original_transaction_id", event["type"]) for event in events]
    assert bought == ["test_1_a", "test_1_b", "test_1_c", "SUBSCRIBER_ALIAS", "test_1_d"]
    # Events from before the merge keep the id of that time.
    assert [event["app_user_id"] for event in events] == [ANONYMOUS, "ada", ANONYMOUS, "ada", "ada"]
    assert await walk(shop, f"customers/{quote(ANONYMOUS)}/events?limit=3") == events
    # The surviving customer's sequence goes on from the higher of the two.
    assert [event["sequence"] for event in events if event["app_user_id"] == "ada"] == [1, 3, 4]


async def test_the_feed_of_a_project_has_only_its_own(shop: Shop) -> None:
    await show_receipt(shop, "ada")
    await shop.database.pool.execute("insert into projects (id, name, created_at) values ('other', 'Other', 0)")
    await shop.database.pool.execute("insert into feeds (project_id) values ('other') on conflict do nothing")
    await shop.database.pool.execute(
        "insert into events (project_id, position, id, customer_id, sequence, type, environment, occurred_at,"
        " committed_at, body) values ('other', 1, 'theirs', 1, 1, 'RENEWAL', 'SANDBOX', 0, 0, $1)",
        json.encode({"id": "theirs"}),
    )
    assert [event["app_user_id"] for event in await walk(shop, "events")] == ["ada"]
    assert (await get(shop, "events?starting_after=theirs")).status == 404
