"""A webhook's dialect: chosen, shown, changed, and kept by a delivery for all its attempts."""

from typing import Any

from msgspec import json

from latchkey.domain.instants import DAY
from tests.http.client import NOW
from tests.http.doings import did
from tests.http.management import patch, refused
from tests.http.receiving import HOOKS, Post, delivering
from tests.patience import until
from tests.subjects.webhooks.test_replays_api import replay, worked_off


def bodies(post: Post) -> list[dict[str, Any]]:
    return [json.decode(arrival.body)["event"] for arrival in post.arrivals]


async def change(post: Post, id: str, dialect: str) -> None:
    reply = await patch(post, f"{HOOKS}/{id}", {"dialect": dialect})
    assert reply.status == 200, reply


async def test_a_dialect_is_chosen_in_either_case_and_shown(post: Post) -> None:
    assert (await post.hook())["dialect"] == "latchkey"
    made = await post.hook(dialect="REVENUECAT")
    assert made["dialect"] == "revenuecat"
    assert (await post.shown(made["id"]))["dialect"] == "revenuecat"
    await change(post, made["id"], "latchkey")
    assert (await post.shown(made["id"]))["dialect"] == "latchkey"
    for wrong in ("klingon", "", None, 1):
        new = {"name": "x", "url": "https://example.com/", "dialect": wrong}
        refused(await post.call("POST", "", new), 400, "parameter_error", "dialect")


async def test_two_webhooks_get_the_same_event_in_their_own_dialects(sending: Post) -> None:
    ours = (await sending.hook("/ours"))["id"]
    theirs = (await sending.hook("/theirs", dialect="revenuecat"))["id"]
    await did(sending, "purchase", "ada", "pro_monthly", trial=True)
    await did(sending, "purchase", "ada", "pro_yearly")
    await did(sending, "refund", "ada", "pro_yearly")
    for id in (ours, theirs):
        await sending.settled(id, "delivered", 3)
    told = {
        path: [json.decode(one.body)["event"] for one in sending.arrivals if one.path == path]
        for path in ("/ours", "/theirs")
    }
    assert [one["type"] for one in told["/ours"]] == ["TRIAL_STARTED", "INITIAL_PURCHASE", "REFUND"]
    assert [one["type"] for one in told["/theirs"]] == ["INITIAL_PURCHASE", "INITIAL_PURCHASE", "CANCELLATION"]
    assert [one["period_type"] for one in told["/theirs"]] == ["TRIAL", "NORMAL", "NORMAL"]
    assert told["/theirs"][2]["cancel_reason"] == "CUSTOMER_SUPPORT"
    assert [one["id"] for one in told["/ours"]] == [one["id"] for one in told["/theirs"]]
    # The log shows what was sent.
    shown = await sending.shown(f"{theirs}/deliveries/{told['/theirs'][0]['id']}")
    assert shown["request_body"]["event"] == told["/theirs"][0]


async def test_all_attempts_of_a_delivery_send_the_same_bytes_whatever_is_changed_meanwhile(sending: Post) -> None:
    id = (await sending.hook("/flaky/1", dialect="revenuecat", retry_schedule_seconds=[5, 30]))["id"]
    await did(sending, "purchase", "ada", "pro_monthly", trial=True)
    [waiting] = await sending.settled(id, "waiting", attempts=1)
    await change(sending, id, "latchkey")
    await sending.later(10_000)
    await sending.settled(id, "delivered")
    first, second = sending.arrivals
    assert first.body == second.body
    assert json.decode(first.body)["event"]["type"] == "INITIAL_PURCHASE"
    # What happens after the change is told in the new dialect.
    await did(sending, "cancel", "ada")
    await arrived(sending, 3)
    assert bodies(sending)[-1]["type"] == "TRIAL_CANCELLED"
    # So is what is resent.
    assert (await sending.call("POST", f"{id}/deliveries/{waiting['id']}/resend")).status == 202
    await arrived(sending, 4)
    assert bodies(sending)[-1]["type"] == "TRIAL_STARTED"


async def test_a_conversion_passes_the_filter_of_renewals_now_and_in_a_replay(post: Post) -> None:
    id = (await post.hook(dialect="revenuecat", event_types=["RENEWAL", "REFUND"]))["id"]
    other = (await post.hook(dialect="revenuecat", event_types=["INITIAL_PURCHASE"]))["id"]
    async with delivering(post):
        await did(post, "purchase", "ada", "pro_monthly", trial=True)
        post.clock.now += 8 * DAY
        # Any read or write of the customer first lets its time pass.
        await did(post, "refund", "ada")
        await post.settled(id, "delivered", 2)
        await post.settled(other, "delivered", 1)
        told = bodies(post)
        assert sorted((one["type"], one.get("is_trial_conversion")) for one in told) == [
            ("CANCELLATION", None),
            ("INITIAL_PURCHASE", None),
            ("RENEWAL", True),
        ]
        post.arrivals.clear()
        await replay(post, id, until_ms=NOW + 9 * DAY)
        await worked_off(post)
        await arrived(post, 2)
        assert [one["type"] for one in bodies(post)] == ["RENEWAL", "CANCELLATION"]


async def test_a_test_event_is_told_in_the_dialect(post: Post) -> None:
    id = (await post.hook(dialect="revenuecat"))["id"]
    reply = await post.call("POST", f"{id}/test", {"type": "TRIAL_STARTED"})
    [body] = bodies(post)
    assert (body["type"], body["period_type"], body["store"]) == ("INITIAL_PURCHASE", "TRIAL", "TEST_STORE")
    assert reply.json()["request_body"]["event"] == body
    assert reply.json()["event_type"] == "TRIAL_STARTED"


async def arrived(post: Post, count: int) -> None:
    await until(lambda: len(post.arrivals) >= count, lambda: f"{len(post.arrivals)} of {count} arrived")
