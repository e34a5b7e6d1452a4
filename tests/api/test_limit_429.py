from __future__ import annotations

import asyncio

from latchkey.usecases.access import keys
from latchkey.usecases.sandbox.demo import APP_ID
from tests.api.client import NOW, Shop
from tests.api.doings import show_receipt


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
        # Move the window back by a minute instead of waiting.
        await connection.execute("update rate_windows set buckets = array[buckets[1] - 60000000]")
    assert (await shop.v1("nobody", key=issued.plaintext)).status == 404


async def test_a_receipt_with_a_public_key_is_never_refused_for_its_rate(shop: Shop) -> None:
    """All phones of an app share its key, and a phone drops a purchase for good on any 4xx."""
    issued = await keys.create_public_key(shop.database, shop.project_id, APP_ID, "small", NOW, rate_limit=1)
    assert (await shop.v1("ada", key=issued.plaintext)).status == 201
    assert (await shop.v1("ada", key=issued.plaintext)).status == 429
    for number in range(3):
        bought = await show_receipt(shop, f"buyer {number}", f"test_1_{number}", key=issued.plaintext)
        assert bought.status == 200
        assert set(bought.json()["subscriber"]["entitlements"]) == {"pro"}
    # Through the framework too, where a field is not as the fast path expects it.
    odd = {"app_user_id": "buyer 9", "fetch_token": "test_1_9", "product_id": "pro_monthly", "price": [[]]}
    assert (await shop.client.post("/v1/receipts?again=1", odd, key=issued.plaintext)).status == 200
    assert (await shop.v1("ada", key=issued.plaintext)).status == 429
