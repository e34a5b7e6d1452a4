from __future__ import annotations

import asyncio

from latchkey.usecases.access import keys
from tests.api.client import NOW, Shop


async def test_the_481st_request_in_a_minute_is_429_over_v1_and_v2_together(shop: Shop) -> None:
    await shop.note("ada", plan="x")
    replies = await asyncio.gather(
        *(shop.v1("ada") for _ in range(240)),
        *(shop.v2("ada") for _ in range(200)),
        *(shop.v2("ada", "/attributes") for _ in range(40)),
    )
    assert [reply.status for reply in replies] == [200] * 480
    refused = await shop.v1("ada")
    assert refused.status == 429
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert set(refused.json()) == {"code", "message"}
    for more in ("", "/attributes"):
        refused = await shop.v2("ada", more)
        assert refused.status == 429
        error = refused.json()
        assert (error["type"], error["retryable"]) == ("rate_limit_error", True)
        assert 0 < error["backoff_ms"] <= 60_000
        assert int(refused.headers["retry-after"]) == -(-error["backoff_ms"] // 1000)


async def test_what_is_wrong_in_another_way_counts_too_but_strangers_do_not(shop: Shop) -> None:
    issued = await keys.create_secret_key(shop.database, shop.project_id, "small", NOW, rate_limit=3)
    assert (await shop.v1("nobody", key=issued.plaintext)).status == 404
    assert (await shop.v1("null", key=issued.plaintext)).status == 400
    assert (await shop.client.get("/v2/projects/x/customers/y", key=issued.plaintext)).status == 403
    assert (await shop.v1("nobody", key=issued.plaintext)).status == 429
    for _ in range(5):
        assert (await shop.v1("nobody", key="sk_unknown")).status == 401


async def test_a_place_comes_back_when_its_minute_is_over(shop: Shop) -> None:
    issued = await keys.create_secret_key(shop.database, shop.project_id, "small", NOW, rate_limit=1)
    assert (await shop.v1("nobody", key=issued.plaintext)).status == 404
    assert (await shop.v1("nobody", key=issued.plaintext)).status == 429
    async with shop.database.acquire() as connection:
        # A minute, without waiting for it.
        await connection.execute("update rate_windows set buckets = array[buckets[1] - 60000000]")
    assert (await shop.v1("nobody", key=issued.plaintext)).status == 404
