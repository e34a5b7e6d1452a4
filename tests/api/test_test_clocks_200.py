"""Test clocks over HTTP: made, listed, advanced; and everything about a customer on a clock uses its time."""

from __future__ import annotations

import asyncio

from latchkey.domain.instants import to_iso
from tests.api.client import DAY, NOW, Shop
from tests.api.doings import advance, did, make_clock, move_in, told, types_told
from tests.api.management import delete, get, holds, post, walk

PAST = NOW - 1000 * DAY


async def test_a_clock_starts_now_unless_told_otherwise(steady_shop: Shop) -> None:
    reply = await post(steady_shop, "test_clocks", {"name": "plain"})
    assert reply.status == 201
    body = reply.json()
    assert body == {
        "object": "test_clock",
        "id": body["id"],
        "project_id": steady_shop.project_id,
        "name": "plain",
        "now_ms": NOW,
        "created_at": NOW,
    }
    assert (await get(steady_shop, f"test_clocks/{body['id']}")).json() == body
    other = (await post(steady_shop, "test_clocks", {"name": "past", "now_ms": PAST})).json()
    assert (other["now_ms"], other["created_at"]) == (PAST, NOW)


async def test_clocks_are_listed_oldest_first_page_by_page(shop: Shop) -> None:
    made = []
    for number in range(7):
        made.append(await make_clock(shop, name=f"clock {number}"))
        shop.clock.now += number % 2
    listed = await walk(shop, "test_clocks?limit=2")
    assert [clock["id"] for clock in listed if clock["created_at"] == NOW + 1] == sorted(made[2:4])
    assert {clock["id"] for clock in listed} == set(made)
    assert [clock["created_at"] for clock in listed] == sorted(clock["created_at"] for clock in listed)


async def test_a_page_whose_last_clock_is_gone_meanwhile_does_not_end_the_list_in_silence(shop: Shop) -> None:
    for number in range(3):
        await make_clock(shop, name=f"clock {number}")
    first = (await get(shop, "test_clocks?limit=1")).json()
    await delete(shop, f"test_clocks/{first['items'][0]['id']}")
    assert (await shop.client.get(first["next_page"])).status == 404


async def test_a_clock_is_advanced_by_a_length_or_to_a_moment_and_also_not_at_all(steady_shop: Shop) -> None:
    clock = await make_clock(steady_shop, 1_800_000_000_000)
    assert (await advance(steady_shop, clock, by="P1M"))["now_ms"] == 1_800_000_000_000 + 31 * DAY
    assert (await advance(steady_shop, clock, by="PT1S"))["now_ms"] == 1_800_000_001_000 + 31 * DAY
    moved = await advance(steady_shop, clock, to_ms=1_900_000_000_001)
    assert (moved["now_ms"], moved["events_count"]) == (1_900_000_000_001, 0)
    assert (await advance(steady_shop, clock, to_ms=1_900_000_000_001))["now_ms"] == 1_900_000_000_001


async def test_every_transition_happens_at_its_own_instant(steady_shop: Shop) -> None:
    clock = await make_clock(steady_shop)
    await move_in(steady_shop, "ann", clock)
    await move_in(steady_shop, "ben", clock)
    await did(steady_shop, "purchase", "ann", "pro_monthly", trial=True)
    await did(steady_shop, "purchase", "ben", "team_monthly")
    await did(steady_shop, "cancel", "ben")
    moved = await advance(steady_shop, clock, by="P3M")
    assert moved["events_count"] == 4
    ann = [(event["type"], event["event_timestamp_ms"]) for event in await told(steady_shop, "ann")]
    assert ann == [
        ("TRIAL_STARTED", NOW),
        ("INITIAL_PURCHASE", NOW + 7 * DAY),
        ("RENEWAL", NOW + (7 + 31) * DAY),
        ("RENEWAL", NOW + (7 + 31 + 28) * DAY),
    ]
    ben = [(event["type"], event["event_timestamp_ms"]) for event in await told(steady_shop, "ben")]
    assert ben[-1] == ("EXPIRATION", NOW + 31 * DAY)
    # Each event carries what was held at its own instant.
    assert [set(event["entitlements"]) for event in await told(steady_shop, "ben")] == [
        {"pro", "team"},
        {"pro", "team"},
        set(),
    ]
    # And the project's feed has them in the order in which they fell due.
    feed = await walk(steady_shop, "events?limit=100")
    due = [event["event_timestamp_ms"] for event in feed if event["app_user_id"] in {"ann", "ben"}]
    assert due == sorted(due)


async def test_many_small_steps_end_where_one_long_one_does(steady_shop: Shop) -> None:
    lives = []
    for who, steps in (("small", ["P1D"] * 40 + ["P20D"]), ("long", ["P60D"])):
        clock = await make_clock(steady_shop)
        await move_in(steady_shop, who, clock)
        await did(steady_shop, "purchase", who, "pro_monthly", trial=True)
        for step in steps:
            await advance(steady_shop, clock, by=step)
        lives.append(
            [
                (event["type"], event["event_timestamp_ms"], event["expiration_at_ms"], event["sequence"])
                for event in await told(steady_shop, who)
            ]
        )
    assert lives[0] == lives[1]


async def test_reads_live_on_the_clock(steady_shop: Shop) -> None:
    clock = await make_clock(steady_shop, PAST)
    await move_in(steady_shop, "past", clock)
    await did(steady_shop, "purchase", "past", "pro_monthly")
    body = (await steady_shop.v1("past")).json()
    assert (body["request_date_ms"], body["request_date"]) == (PAST, to_iso(PAST))
    assert body["subscriber"]["first_seen"] == body["subscriber"]["original_purchase_date"] == to_iso(PAST)
    assert await holds(steady_shop, "past") == {"pro"}
    shown = (await steady_shop.v2("past")).json()
    assert shown["first_seen_at"] == shown["last_seen_at"] == PAST
    await did(steady_shop, "cancel", "past")
    await advance(steady_shop, clock, by="P1Y")
    assert await holds(steady_shop, "past") == set()
    assert (await steady_shop.v1("past")).json()["request_date_ms"] == PAST + 365 * DAY
    assert (await get(steady_shop, "customers/past/entitlements/pro/explanation")).json()["reason"] == "expired"


async def test_time_outside_does_not_touch_who_lives_on_a_clock(shop: Shop) -> None:
    await move_in(shop, "ada", await make_clock(shop))
    await did(shop, "purchase", "ada", "pro_monthly")
    shop.clock.now += 400 * DAY
    assert await holds(shop, "ada") == {"pro"}
    assert await types_told(shop) == ["INITIAL_PURCHASE"]
    assert (await shop.v1("ada")).json()["request_date_ms"] == NOW


async def test_what_is_told_of_a_clocks_customer_is_sandbox(steady_shop: Shop) -> None:
    clock = await make_clock(steady_shop)
    await move_in(steady_shop, "sand", clock)
    await post(steady_shop, "customers/sand/actions/grant_entitlement", {"entitlement_id": "pro"})
    await did(steady_shop, "purchase", "sand", "coins_100")
    assert {event["environment"] for event in await told(steady_shop, "sand")} == {"SANDBOX"}


async def test_one_clock_advanced_by_many_at_once_arrives_once_and_tells_everything_once(steady_shop: Shop) -> None:
    clock = await make_clock(steady_shop)
    for number in range(5):
        await move_in(steady_shop, f"crowd{number}", clock)
        await did(steady_shop, "purchase", f"crowd{number}", "pro_monthly")
    moved = await asyncio.gather(*(advance(steady_shop, clock, to_ms=NOW + 100 * DAY) for _ in range(5)))
    assert {one["now_ms"] for one in moved} == {NOW + 100 * DAY}
    assert sum(one["events_count"] for one in moved) == 5 * 3
    for number in range(5):
        assert [event["sequence"] for event in await told(steady_shop, f"crowd{number}")] == [1, 2, 3, 4]


async def test_a_clock_that_nobody_lives_on_can_be_deleted(steady_shop: Shop) -> None:
    clock = await make_clock(steady_shop)
    await move_in(steady_shop, "tenant", clock)
    reply = await delete(steady_shop, f"test_clocks/{clock}")
    assert (reply.status, reply.json()["type"]) == (409, "unprocessable_entity_error")
    await delete(steady_shop, "customers/tenant")
    reply = await delete(steady_shop, f"test_clocks/{clock}")
    assert reply.json() == {"object": "test_clock", "id": clock, "deleted_at": NOW}
    assert (await get(steady_shop, f"test_clocks/{clock}")).status == 404
