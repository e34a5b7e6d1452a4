"""The delivery log: every event for every webhook, every attempt, what the receiver said; operational events."""

import asyncio
import time
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec import json

from latchkey.subjects.webhooks.usecases import registry
from tests.http.client import DAY, NOW
from tests.http.doings import ANONYMOUS, did
from tests.http.management import get, refused, walk
from tests.http.receiving import HOOKS, Post
from tests.patience import PATIENCE, until


async def ids(post: Post, id: str, query: str = "") -> list[str]:
    items = await walk(post, f"{HOOKS}/{id}/deliveries{query}")
    return [item["id"] for item in items]


async def test_a_delivery_is_shown_with_what_was_sent_and_answered(sending: Post) -> None:
    id = (await sending.hook(authorization_header="Bearer hush-hush"))["id"]
    done = await did(sending, "purchase", "ada", "pro_monthly")
    event_id = done["events"][0]["id"]
    [listed] = await sending.settled(id, "delivered")
    finished_at = listed.pop("finished_at")
    assert NOW <= finished_at < NOW + 1000
    assert (listed["id"], listed["customer_id"], listed["response_status"]) == (event_id, "ada", 200)
    one = await sending.shown(f"{id}/deliveries/{event_id}")
    [attempt] = one.pop("attempts")
    [arrival] = sending.arrivals
    assert one.pop("request_body") == json.decode(arrival.body)
    assert one.pop("next_attempt_at") is None
    assert one == {**listed, "finished_at": finished_at}
    assert (attempt["number"], attempt["at"], attempt["error"]) == (1, NOW, None)
    assert 0 <= attempt["milliseconds"] < 60_000
    assert attempt["response_status"] == 200
    assert attempt["response_body"] == '{"message":"ok"}'
    assert ["content-type", "application/json"] in attempt["response_headers"]
    shown = {name.lower(): value for name, value in attempt["request_headers"].items()}
    assert shown["authorization"] == "Bearer ••••"
    assert shown["webhook-id"] == event_id
    # This header is for test events only: a receiver ignores an event that has it.
    assert "latchkey-test-event" not in {*shown, *arrival.headers}
    assert shown["webhook-signature"] == arrival.headers["webhook-signature"]


async def test_every_attempt_is_kept_with_the_same_body(sending: Post) -> None:
    id = (await sending.hook("/flaky/1", retry_schedule_seconds=[5, 30]))["id"]
    await did(sending, "purchase", "ada", "pro_monthly")
    [waiting] = await sending.settled(id, "waiting", attempts=1)
    assert (waiting["response_status"], waiting["error"]) == (500, "answered 500 instead of 200")
    one = await sending.shown(f"{id}/deliveries/{waiting['id']}")
    assert NOW + 5_000 <= one["next_attempt_at"] < NOW + 6_000
    assert (await sending.shown(id))["health"] == {
        "state": "failing",
        "last_success_at": None,
        "failing_since": NOW,
        "paused_at": None,
        "waiting": 1,
        "failed": 1,
    }
    assert await ids(sending, id, "?status=failing") == [waiting["id"]]
    assert await ids(sending, id, "?status=failed") == []
    await sending.later(10_000)
    await sending.settled(id, "delivered")
    one = await sending.shown(f"{id}/deliveries/{waiting['id']}")
    assert [attempt["response_status"] for attempt in one["attempts"]] == [500, 200]
    assert [attempt["response_body"] for attempt in one["attempts"]] == ["oops", '{"message":"ok"}']
    assert len({arrival.body for arrival in sending.arrivals}) == 1
    assert len({arrival.event.id for arrival in sending.arrivals}) == 1
    assert (await sending.shown(id))["health"]["state"] == "ok"


async def test_a_delivery_that_was_given_up_is_failed_and_counted(sending: Post) -> None:
    id = (await sending.hook("/status/500", retry_schedule_seconds=[]))["id"]
    await did(sending, "purchase", "ada", "pro_monthly")
    [failed] = await sending.settled(id, "failed")
    assert (failed["attempts_count"], failed["error"]) == (1, "answered 500 instead of 200")
    health = (await sending.shown(id))["health"]
    assert (health["waiting"], health["failed"]) == (0, 1)


async def test_what_has_not_been_tried_is_in_the_log_too(post: Post) -> None:
    id = (await post.hook())["id"]
    await did(post, "purchase", "ada", "pro_monthly")
    await did(post, "cancel", "ada")
    second, first = (await post.shown(f"{id}/deliveries"))["items"]
    assert [one["status"] for one in (first, second)] == ["waiting", "waiting"]
    head = await post.shown(f"{id}/deliveries/{first['id']}")
    behind = await post.shown(f"{id}/deliveries/{second['id']}")
    assert (head["next_attempt_at"], head["attempts"]) == (NOW, [])
    assert behind["next_attempt_at"] is None


async def test_the_log_is_filtered_by_status_type_customer_and_time(sending: Post) -> None:
    id = (await sending.hook("/status/500", retry_schedule_seconds=[], event_types=["CANCELLATION"]))["id"]
    good = (await sending.hook())["id"]
    await did(sending, "purchase", "ada", "pro_monthly")
    sending.clock.now += DAY
    await did(sending, "cancel", "ada")
    await did(sending, "purchase", ANONYMOUS, "pro_monthly")
    await sending.settled(good, "delivered", 3)
    await sending.settled(id, "failed")
    bought, cancelled, other = [item["id"] for item in await walk(sending, "events")]

    assert await ids(sending, id) == [cancelled]
    assert await ids(sending, id, "?status=delivered") == []
    assert await ids(sending, good, "?status=failed") == []
    assert set(await ids(sending, good, "?status=delivered&limit=1")) == {bought, cancelled, other}
    assert set(await ids(sending, good, "?type=INITIAL_PURCHASE&limit=1")) == {bought, other}
    assert await ids(sending, good, "?customer_id=ada&limit=1") == [cancelled, bought]
    assert await ids(sending, good, "?customer_id=ada&type=CANCELLATION") == [cancelled]
    assert await ids(sending, good, "?customer_id=ada&status=waiting") == []
    assert await ids(sending, good, f"?customer_id={ANONYMOUS.replace(':', '%3A')}") == [other]
    assert await ids(sending, good, f"?until_ms={NOW + DAY}") == [bought]
    assert set(await ids(sending, good, f"?since_ms={NOW + DAY}&limit=1")) == {cancelled, other}
    assert await ids(sending, good, f"?since_ms={NOW + 1}&until_ms={NOW + DAY}") == []


async def test_a_rare_status_among_many_costs_pages_and_is_found(post: Post, monkeypatch: Any) -> None:
    monkeypatch.setattr(registry, "EXAMINED", 3)
    id = (await post.hook())["id"]
    made: list[str] = []
    for number in range(10):
        post.clock.now += 1000
        done = await did(post, "purchase", f"user_{number}", "pro_monthly")
        made.append(done["events"][0]["id"])
    rare = made[1]
    await post.database.pool.execute("update deliveries set status = 'failed' where event_id = $1", rare)
    first = await post.shown(f"{id}/deliveries?status=failed")
    assert first["items"] == []
    assert first["next_page"] is not None
    assert await ids(post, id, "?status=failed") == [rare]
    assert await ids(post, id) == made[::-1]


async def test_a_customer_is_found_by_every_id_it_has_and_had(sending: Post) -> None:
    id = (await sending.hook())["id"]
    await did(sending, "purchase", ANONYMOUS, "pro_monthly")
    body = {"app_user_id": ANONYMOUS, "new_app_user_id": "ada"}
    assert (await sending.client.post("/v1/subscribers/identify", body)).status in {200, 201}
    await did(sending, "cancel", "ada")
    await sending.settled(id, "delivered", 3)
    by_name = await ids(sending, id, "?customer_id=ada")
    assert len(by_name) == 3
    assert await ids(sending, id, f"?customer_id={ANONYMOUS.replace(':', '%3A')}") == by_name


async def test_whatever_a_receiver_sends_is_shown_as_text_up_to_16_kib(sending: Post) -> None:
    id = (await sending.hook("/endless"))["id"]
    await did(sending, "purchase", "ada", "pro_monthly")
    [done] = await sending.settled(id, "delivered")
    [attempt] = (await sending.shown(f"{id}/deliveries/{done['id']}"))["attempts"]
    assert attempt["response_body"].startswith("and so on ")
    assert len(attempt["response_body"]) == 16 * 1024


MINUTE = 60_000
FIVE_DAYS = 5 * 24 * 60 * MINUTE


async def announced(post: Post, count: int) -> list[dict[str, Any]]:
    items = await walk(post, "operational_events?limit=1")
    assert len(items) == count
    return items


async def failing(post: Post, id: str, count: int) -> list[dict[str, Any]]:
    """Move the clock, one retry at a time, until there are so many announcements about the webhook."""
    deadline = time.monotonic() + PATIENCE
    while len(items := [one for one in await walk(post, "operational_events") if one["webhook_id"] == id]) < count:
        assert time.monotonic() < deadline, "the webhook did not fail often enough"
        before = await failures(post, id)
        await post.later(20_000)
        # Not for long: an attempt that ended while the clock moved may be due later than this.
        with suppress(TimeoutError):
            async with asyncio.timeout(2):
                await until(partial(_more, post, id, before))
    return items


async def _more(post: Post, id: str, before: int) -> bool:
    return await failures(post, id) > before


async def failures(post: Post, id: str) -> int:
    count: int = await post.database.pool.fetchval("select failures from webhooks where id = $1", id)
    return count


async def test_failing_paused_and_recovered_are_announced_newest_first(sending: Post) -> None:
    id = (await sending.hook("/later/99999/status/500", retry_schedule_seconds=[5] * 50))["id"]
    assert await announced(sending, 0) == []
    for number in range(3):
        await did(sending, "purchase", f"user_{number}", "pro_yearly")
    [first] = await failing(sending, id, 1)
    assert first["object"] == "operational_event"
    assert (first["type"], first["webhook_id"], first["project_id"]) == ("webhook.failing", id, "proj_demo")
    assert (await sending.shown(id))["health"]["state"] == "failing"

    sending.clock.now += FIVE_DAYS
    second, _ = await failing(sending, id, 2)
    assert (second["type"], second["webhook_id"]) == ("webhook.paused", id)
    assert first["occurred_at"] < second["occurred_at"]
    shown = await sending.shown(id)
    assert (shown["enabled"], shown["health"]["state"]) == (False, "paused")

    sending.clock.now += MINUTE
    await sending.call("POST", id, {"url": sending.address + "/good", "enabled": True})
    await did(sending, "purchase", "somebody", "pro_yearly")
    await sending.settled(id, "delivered")

    async def announced_three() -> bool:
        return len(await walk(sending, "operational_events")) == 3

    await until(announced_three)
    third, *_ = await announced(sending, 3)
    assert third["type"] == "webhook.recovered"
    assert third["data"]["webhook_id"] == id
    assert (await sending.shown(id))["health"]["state"] == "ok"


async def test_a_page_that_cannot_be_is_refused(post: Post) -> None:
    refused(await get(post, "operational_events?limit=0"), 400, "parameter_error", "limit")
    refused(await get(post, "operational_events?starting_after=x"), 404, "resource_missing", "starting_after")
    assert (await post.client.get("/v2/projects/proj_other/operational_events")).status == 403
    assert (await get(post, "operational_events")).json() == {
        "object": "list",
        "items": [],
        "next_page": None,
        "url": "/v2/projects/proj_demo/operational_events",
    }
