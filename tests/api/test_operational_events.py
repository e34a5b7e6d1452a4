"""The operational events of webhooks: failing, paused, recovered."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from functools import partial
from typing import Any

from tests.api.doings import did
from tests.api.management import get, refused, walk
from tests.api.receiving import Post
from tests.patience import PATIENCE, until

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
