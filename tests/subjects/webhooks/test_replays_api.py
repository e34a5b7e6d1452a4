"""Sending again: one delivery, everything that failed, or everything there ever was."""

from typing import Any
from unittest.mock import AsyncMock

import pytest

from latchkey.database.errors import OutageError
from latchkey.database.sealing import Sealer
from latchkey.database.transient_errors import transaction
from latchkey.subjects.database_restore import storage as restore
from latchkey.subjects.webhooks.delivery.queue import requeue_runs as requeue
from latchkey.subjects.webhooks.rules import ReplayRange, Webhook
from latchkey.subjects.webhooks.storage import delivery_rows
from latchkey.subjects.webhooks.usecases.registry import Registry
from tests.http.client import DAY, NOW
from tests.http.doings import did
from tests.http.management import refused, walk
from tests.http.receiving import HOOKS, SECRET_KEY, Post, delivering

MONTH = 30 * DAY


async def replay(post: Post, id: str, **fields: Any) -> dict[str, Any]:
    reply = await post.call("POST", f"{id}/replay", {"since_ms": NOW - MONTH, "status": "all", **fields})
    assert reply.status == 202, reply
    started: dict[str, Any] = reply.json()
    return started


async def worked_off(post: Post) -> None:
    while await requeue.work_off(post.database, post.clock.now):
        pass


async def test_one_delivery_is_sent_again_with_the_same_id_and_body(sending: Post) -> None:
    id = (await sending.hook())["id"]
    await did(sending, "purchase", "ada", "pro_monthly")
    [first] = await sending.settled(id, "delivered")
    sending.clock.now += 5_000
    reply = await sending.call("POST", f"{id}/deliveries/{first['id']}/resend")
    assert reply.status == 202
    assert (reply.json()["id"], reply.json()["object"]) == (first["id"], "webhook_delivery")
    await sending.settled(id, "delivered", attempts=2)
    assert len(sending.arrivals) == 2
    assert len({arrival.body for arrival in sending.arrivals}) == 1
    assert {arrival.headers["webhook-id"] for arrival in sending.arrivals} == {first["id"]}
    one = await sending.shown(f"{id}/deliveries/{first['id']}")
    assert [(attempt["number"], attempt["at"]) for attempt in one["attempts"]] == [(1, NOW), (2, NOW + 5_000)]


async def test_everything_that_failed_since_a_moment_is_sent_again_in_order(post: Post) -> None:
    id = (await post.hook("/flaky/1", retry_schedule_seconds=[]))["id"]
    async with delivering(post):
        await did(post, "purchase", "ada", "pro_monthly")
        await did(post, "cancel", "ada")
        await did(post, "uncancel", "ada")
        await post.settled(id, "failed", 3)
        post.arrivals.clear()
        started = await replay(post, id, status="failed")
        assert (started["object"], started["state"], started["webhook_id"]) == ("webhook_replay", "running", id)
        assert (started["since_ms"], started["until_ms"]) == (NOW - MONTH, NOW + 1)
        await worked_off(post)
        await post.settled(id, "delivered", 3)
        assert [arrival.event.sequence for arrival in post.arrivals] == [1, 2, 3]
        done = await post.shown(f"{id}/replays/{started['id']}")
    assert (done["state"], done["finished_at"]) == ("finished", NOW)
    assert (done["examined"], done["total"]) == (3, 3)
    assert (done["scheduled"], done["delivered"], done["failed"]) == (3, 3, 0)
    listed = await walk(post, f"{HOOKS}/{id}/deliveries")
    assert {item["replay_id"] for item in listed} == {started["id"]}


async def test_a_replay_keeps_to_its_time_its_types_and_the_webhooks_filters(post: Post) -> None:
    post.clock.now = NOW - 10 * DAY
    await did(post, "purchase", "ada", "pro_yearly", environment="PRODUCTION")
    post.clock.now = NOW - 5 * DAY
    await did(post, "cancel", "ada")
    await did(post, "purchase", "bob", "pro_yearly", environment="SANDBOX")
    post.clock.now = NOW
    await did(post, "uncancel", "ada")
    id = (await post.hook(environment="production"))["id"]
    bounds = {"since_ms": NOW - 5 * DAY, "until_ms": NOW}
    await replay(post, id, **bounds)
    await replay(post, id, event_types=["UNCANCELLATION"], since_ms=NOW - 20 * DAY)
    await worked_off(post)
    found = await walk(post, f"{HOOKS}/{id}/deliveries")
    assert [item["event_type"] for item in found] == ["UNCANCELLATION", "CANCELLATION"]


async def test_a_replay_goes_on_where_it_was_when_its_process_died(post: Post, monkeypatch: Any) -> None:
    monkeypatch.setattr(requeue, "_BATCH", 2)
    for number in range(5):
        await did(post, "purchase", f"user_{number}", "pro_yearly")
    id = (await post.hook())["id"]
    started = await replay(post, id)
    await requeue.work_off(post.database, post.clock.now)
    halfway = await post.shown(f"{id}/replays/{started['id']}")
    assert (halfway["state"], halfway["examined"], halfway["total"], halfway["scheduled"]) == ("running", 2, 5, 2)
    # Any process can go on from the stored row.
    await worked_off(post)
    done = await post.shown(f"{id}/replays/{started['id']}")
    assert (done["state"], done["examined"], done["scheduled"]) == ("finished", 5, 5)
    assert len(await walk(post, f"{HOOKS}/{id}/deliveries")) == 5


async def webhook_of(post: Post, id: str) -> Webhook:
    return await Registry(post.database, Sealer(SECRET_KEY)).load(post.project_id, id)


async def test_what_has_failed_and_waits_for_a_retry_counts_as_failed_and_is_replayed_at_once(post: Post) -> None:
    id = (await post.hook("/flaky/1", retry_schedule_seconds=[3600]))["id"]
    async with delivering(post):
        await did(post, "purchase", "ada", "pro_monthly")
        await post.settled(id, "waiting", attempts=1)
        assert (await post.shown(id))["health"]["failed"] == 1
        chosen = ReplayRange(NOW - MONTH, None, "failed")
        counted = await requeue.count_replay(post.database, await webhook_of(post, id), chosen, NOW)
        assert counted == requeue.ReplayCount(1, retrying=1, complete=True)
        started = await replay(post, id, status="failed")
        await worked_off(post)
        await post.settled(id, "delivered")
        done = await post.shown(f"{id}/replays/{started['id']}")
    assert (done["scheduled"], done["hurried"]) == (0, 1)


async def test_all_that_waits_is_sent_now(post: Post) -> None:
    id = (await post.hook("/flaky/1", retry_schedule_seconds=[3600]))["id"]
    async with delivering(post):
        for customer in ("ada", "bob"):
            await did(post, "purchase", customer, "pro_monthly")
        await post.settled(id, "waiting", 2, attempts=1)
        key = (await webhook_of(post, id)).key
        assert await requeue.send_waiting(post.database, post.project_id, key, post.clock.now) == 2
        await post.settled(id, "delivered", 2)
        assert await requeue.send_waiting(post.database, post.project_id, key, post.clock.now) == 0


async def test_a_replay_that_is_stopped_leaves_every_delivery_as_it_was(post: Post) -> None:
    await did(post, "purchase", "eve", "pro_monthly")
    id = (await post.hook("/flaky/1", retry_schedule_seconds=[]))["id"]
    async with delivering(post):
        await did(post, "purchase", "ada", "pro_monthly")
        await did(post, "purchase", "bob", "pro_monthly")
        first, _ = await post.settled(id, "failed", 2)
        await post.call("POST", f"{id}/deliveries/{first['id']}/resend")
        await post.settled(id, "delivered")
        await post.call("POST", id, {"enabled": False})
        before = await walk(post, f"{HOOKS}/{id}/deliveries")
        started = await replay(post, id)
        await worked_off(post)
        assert (await post.shown(f"{id}/replays/{started['id']}"))["scheduled"] == 3
        await did(post, "cancel", "ada")
        stop = (post.database, post.project_id, id, started["id"], post.clock.now)
        assert await requeue.stop_replay(*stop) == 3
        assert await requeue.stop_replay(*stop) is None
        done = await post.shown(f"{id}/replays/{started['id']}")
        assert (done["state"], done["scheduled"], done["delivered"], done["failed"]) == ("stopped", 0, 0, 0)
        after = await walk(post, f"{HOOKS}/{id}/deliveries")
        assert [one for one in after if one["event_type"] != "CANCELLATION"] == before
        post.arrivals.clear()
        await post.call("POST", id, {"enabled": True})
        await post.settled(id, "failed", 2)
        assert [arrival.event.type for arrival in post.arrivals] == ["CANCELLATION"]
        assert (await post.shown(id))["health"]["waiting"] == 0


async def test_a_replay_that_is_stopped_keeps_what_a_restore_has_held(post: Post) -> None:
    id = (await post.hook(enabled=False))["id"]
    await did(post, "purchase", "ada", "pro_monthly")
    await did(post, "purchase", "bob", "pro_monthly")
    async with transaction(post.database) as connection:
        assert await restore.hold(connection, "Not sent: the database was restored.", post.clock.now, 10) == (2, 2)
    before = await walk(post, f"{HOOKS}/{id}/deliveries")
    for _ in range(2):
        started = await replay(post, id, status="failed")
        await worked_off(post)
        assert await requeue.stop_replay(post.database, post.project_id, id, started["id"], post.clock.now) == 2
        assert await walk(post, f"{HOOKS}/{id}/deliveries") == before


async def test_a_stop_that_was_interrupted_is_finished_by_another(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    await did(post, "purchase", "ada", "pro_monthly")
    await did(post, "purchase", "bob", "pro_monthly")
    id = (await post.hook(enabled=False))["id"]
    started = await replay(post, id)
    await worked_off(post)
    stop = (post.database, post.project_id, id, started["id"])
    with monkeypatch.context() as dying:
        dying.setattr(delivery_rows, "unqueue", AsyncMock(side_effect=OutageError))
        with pytest.raises(OutageError):
            await requeue.stop_replay(*stop, NOW)
    assert await requeue.stop_replay(*stop, NOW + 5_000) == 2
    assert await requeue.stop_replay(*stop, NOW + 5_000) is None
    assert await walk(post, f"{HOOKS}/{id}/deliveries") == []


async def test_what_waits_already_is_not_queued_twice(post: Post) -> None:
    id = (await post.hook())["id"]
    await did(post, "purchase", "ada", "pro_monthly")
    started = await replay(post, id)
    await worked_off(post)
    assert (await post.shown(f"{id}/replays/{started['id']}"))["scheduled"] == 0
    assert (await post.shown(id))["health"]["waiting"] == 1


async def test_a_replay_that_cannot_be_is_refused(post: Post) -> None:
    id = (await post.hook())["id"]
    good = {"since_ms": NOW - DAY, "status": "all"}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"until_ms": NOW - DAY}, "until_ms"),
        ({"until_ms": NOW - 2 * DAY}, "until_ms"),
        ({"event_types": ["BIRTHDAY"]}, "event_types.0"),
    ]
    for change, param in wrong:
        refused(await post.call("POST", f"{id}/replay", {**good, **change}), 400, "parameter_error", param)
    refused(await post.call("POST", "wh_none/replay", good), 404, "resource_missing", "webhook_id")
    refused(await post.call("GET", f"{id}/replays/rep_none"), 404, "resource_missing", "replay_id")
    assert await post.database.pool.fetchval("select count(*) from replays") == 0
