"""When and from where a customer was last seen: noted by reads, written later, in batches."""

import asyncio

import pytest

from latchkey.database.pool import Database
from latchkey.domain.customers.customer import LastSeen
from latchkey.engine.last_seen import Presence
from latchkey.subjects.test_clocks import usecases as test_clocks
from tests.http import doings
from tests.http.client import DAY, NOW, Shop
from tests.patience import PATIENCE, until

DEVICE = {
    "x-platform": "iOS",
    "x-platform-version": "Version 26.1 (Build 23B85)",
    "x-client-version": "4.2.0",
    "cf-ipcountry": "de",
}


async def seen(shop: Shop, app_user_id: str = "ada") -> dict[str, object]:
    await shop.presence.flush()
    body = (await shop.v2(app_user_id)).json()
    return {name.removeprefix("last_seen_"): value for name, value in body.items() if name.startswith("last_seen")}


async def test_a_read_from_a_device_is_noted_with_all_it_says(shop: Shop) -> None:
    await shop.note("ada", plan="x")
    shop.clock.now += DAY
    assert (await shop.v1("ada", headers=DEVICE)).status == 200
    assert await seen(shop) == {
        "at": NOW + DAY,
        "app_version": "4.2.0",
        "country": "DE",
        "platform": "ios",
        "platform_version": "Version 26.1 (Build 23B85)",
    }
    assert (await shop.v1("ada")).json()["subscriber"]["last_seen"] == "2027-01-16T08:00:00Z"


async def test_a_servers_read_is_not_a_visit_and_an_apps_is(shop: Shop) -> None:
    await shop.note("ada", plan="x")
    shop.clock.now += DAY
    await shop.v1("ada")
    await shop.v2("ada")
    assert (await seen(shop))["at"] == NOW
    await shop.v1("ada", key=shop.public)
    assert (await seen(shop))["at"] == NOW + DAY


@pytest.mark.parametrize("known", [False, True])
async def test_a_receipt_writes_the_visit_with_the_purchase(shop: Shop, known: bool) -> None:
    if known:
        await shop.note("ada", plan="x")
    shop.clock.now += DAY
    assert (await doings.show_receipt(shop, "ada", headers=DEVICE)).status == 200
    row = await shop.database.pool.fetchrow(
        "select last_seen_at, last_seen_platform, last_seen_country, first_app_version, first_country from customers"
    )
    assert row is not None
    assert tuple(row) == (NOW + DAY, "ios", "DE", "4.2.0", "DE")
    assert await shop.database.pool.fetchval("select platform from chart_periods") == "ios"

    # One that changes nothing is noted like a read.
    shop.clock.now += DAY
    assert (await doings.show_receipt(shop, "ada", headers=ANDROID)).status == 200
    assert await seen(shop) == {
        "at": NOW + 2 * DAY,
        "app_version": "4.2.0",
        "country": "DE",
        "platform": "android",
        "platform_version": None,
    }


async def test_what_a_later_visit_does_not_say_stays_known(shop: Shop) -> None:
    await shop.note("ada", plan="x")
    await shop.v1("ada", headers=DEVICE)
    await shop.v1("ada", key=shop.public, headers={"x-version": "5.0"})
    assert await seen(shop) == {
        "at": NOW,
        "app_version": "5.0",
        "country": "DE",
        "platform": "ios",
        "platform_version": "Version 26.1 (Build 23B85)",
    }


ANDROID = {"x-platform": "android"}


@pytest.mark.parametrize("flushed", [True, False])
async def test_the_platforms_version_is_never_that_of_another_platform(shop: Shop, flushed: bool) -> None:
    await shop.note("ada", plan="x")
    visits: list[tuple[dict[str, str], str, str | None]] = [
        ({**ANDROID, "x-platform-version": "35"}, "android", "35"),
        (ANDROID, "android", "35"),
        ({"x-platform": "iOS"}, "ios", None),
        ({"x-platform": "iOS", "x-platform-version": "18.1"}, "ios", "18.1"),
        ({"x-platform-version": "14"}, "ios", "18.1"),
        ({}, "ios", "18.1"),
        ({"x-platform": "web"}, "web", None),
    ]
    for number, (headers, platform, version) in enumerate(visits):
        await shop.v1("ada", key=shop.public, headers=headers)
        # Where visits are not written one by one, they are merged in memory.
        if flushed or number == len(visits) - 1:
            found = await seen(shop)
            assert (found["platform"], found["platform_version"]) == (platform, version), headers


@pytest.mark.parametrize(
    "headers",
    [
        {"x-platform": ""},
        {"x-platform": "x" * 65},
        {"x-platform": "ünïx"},
        {"x-platform": "a\x00b"},
        {"x-platform": "ios", "x-country": "XX", "cf-ipcountry": "T1"},
        {"x-platform": "ios", "x-country": "Germany"},
    ],
)
async def test_a_header_that_makes_no_sense_is_left_out_and_never_fails_the_read(
    shop: Shop, headers: dict[str, str]
) -> None:
    await shop.note("ada", plan="x")
    assert (await shop.v1("ada", headers=headers)).status == 200
    found = await seen(shop)
    assert found["country"] is None
    assert found["platform"] in (None, "ios")


async def test_a_customer_on_a_test_clock_was_last_seen_at_that_clocks_moment(shop: Shop) -> None:
    await test_clocks.create_clock(shop.database, shop.project_id, "clk", "a clock", NOW + 100 * DAY, NOW)
    await test_clocks.create_customer(shop.changes, shop.project_id, "ada", "clk")
    await test_clocks.advance(shop.changes, shop.project_id, "clk", to=NOW + 200 * DAY)
    await shop.v1("ada", headers=DEVICE)
    assert (await seen(shop))["at"] == NOW + 200 * DAY


async def test_a_read_waits_for_nothing_and_the_visit_is_written_by_itself(shop: Shop) -> None:
    await shop.note("ada", plan="x")
    shop.clock.now += DAY
    await shop.v1("ada", headers=DEVICE)
    async with asyncio.timeout(PATIENCE):
        while (await shop.v2("ada")).json()["last_seen_at"] != NOW + DAY:  # noqa: ASYNC110 - as a client would wait
            await asyncio.sleep(0.05)


async def test_what_cannot_be_written_is_kept_and_what_is_too_much_is_dropped_and_counted(database: Database) -> None:
    dropped: list[None] = []
    presence = Presence(database, most=2, dropped=lambda: dropped.append(None))
    for key in (1, 2, 3, 1):
        presence.note("proj_demo", key, LastSeen(NOW))
    assert len(dropped) == 1
    await database.close()
    with pytest.raises(Exception, match="not open"):
        await presence.flush()
    assert len(presence._notes) == 2
    await database.open()
    await presence.flush()
    assert not presence._notes


async def test_stopping_writes_what_is_left(shop: Shop) -> None:
    database = shop.database
    await shop.note("ada", plan="x")
    key = await database.pool.fetchval("select id from customers")
    presence = Presence(database, every=3600)
    presence.start()
    presence.note(shop.project_id, key, LastSeen(NOW + 7))
    await presence.stop()
    assert await database.pool.fetchval("select last_seen_at from customers") == NOW + 7


async def test_stopping_waits_for_a_write_that_has_begun(shop: Shop) -> None:
    database = shop.database
    await shop.note("ada", plan="x")
    presence = Presence(database, every=0)

    async def taken() -> bool:
        return not presence._notes

    async with database.transaction() as connection:
        key = await connection.fetchval("select id from customers where project_id = $1 for update", shop.project_id)
        presence.start()
        presence.note(shop.project_id, key, LastSeen(NOW + 7))
        # The background writer has taken the visit, and waits for the row.
        await until(taken)
        stopping = asyncio.create_task(presence.stop())
        done, _ = await asyncio.wait({stopping}, timeout=0.05)
        assert not done
    await stopping
    assert await database.pool.fetchval("select last_seen_at from customers") == NOW + 7
