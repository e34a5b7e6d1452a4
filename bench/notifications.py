"""Notifications of the App Store: verified, journalled, answered, and applied, a mix of purchases and renewals. The
ceiling has the same server and TLS and only verifies the signatures."""

import asyncio
import base64
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from msgspec import json
from pyreqwest.client import Client

from bench.buying import connect
from bench.ground import Ground
from bench.load import client, measure
from bench.phones import APP
from bench.table import Row
from latchkey.domain.instants import DAY, HOUR, Duration, Ms, add
from latchkey.emulators.apple.apple_books import AppleBooks
from latchkey.emulators.apple.apple_emulator import AppleEmulator
from latchkey.emulators.apple.apple_keys import AppleKeys, make_apple_keys
from latchkey.emulators.emulator import EmulatorClock
from latchkey.emulators.emulator_server import running
from latchkey.now import real_now

BAR = 1_000
# Each buys and renews once: two notifications.
CUSTOMERS = 4_000
CONNECTIONS = 64
# Sold in one store emulator; many small ones are faster than one with all the customers.
AT_ONCE = 50
# A renewal is sent when so many others have bought.
LATER = 1_000

WAITING = "select count(*) from store_notifications where status = 'waiting'"
BY_STATUS = "select status, count(*) as count from store_notifications where kind not like 'TEST%' group by status"
BY_TYPE = "select type, count(*) as count from events where body->>'store' = 'app_store' group by type"
OWNERS = "select count(distinct customer_id) from purchase_owners where store = 'app_store'"


async def run(ground: Ground, customers: int = CUSTOMERS) -> list[Row]:
    keys = make_apple_keys()
    warm, letters = await write(keys, customers // 10, 0), await write(keys, customers, customers)
    ceiling = await _ceiling(ground, keys, letters)
    store = AppleEmulator(keys, APP, AppleBooks(), EmulatorClock())
    async with running(store) as served:
        ground = replace(ground, store_hosts=(served.base_url.partition("//")[2],))
        async with (
            ground.service("api", "clock") as service,
            client(ground.certificates.authority, ground.key) as http,
        ):
            _, url = await connect(http, service, store.credentials(served.base_url))
            await measure(_poster(http, url, warm), CONNECTIONS, len(warm))
            await _applied(ground)
            began = time.perf_counter()
            answered = await measure(_poster(http, url, letters), CONNECTIONS, len(letters))
            await _applied(ground)
            whole = len(letters) / (time.perf_counter() - began)
    await _check(ground, customers + customers // 10)
    ratio, taken_in = whole / ceiling, answered.per_second
    return [
        Row("notifications, verified to applied", whole, "/s", ceiling, ratio, f"≥ {BAR:,}/s", whole >= BAR),
        Row("notifications, verified and journalled", taken_in, "/s", ceiling, taken_in / ceiling),
        Row("notifications, answered, p99", answered.p99_ms, "ms"),
    ]


async def write(keys: AppleKeys, customers: int, first: int) -> list[bytes]:
    """Signed notifications: each customer buys, and renews when others have bought meanwhile."""
    bought: list[bytes] = []
    renewed: list[bytes] = []
    # The paid month ends in an hour. Apple tells of the renewal before that.
    sold_at = _month_before(real_now() + HOUR)
    for start in range(first, first + customers, AT_ONCE):
        count = min(AT_ONCE, first + customers - start)
        life = AppleBooks(next_id=2_000_000_000_000_000 + 10 * start)
        store = AppleEmulator(keys, APP, life, EmulatorClock(starts_at=sold_at, ticks=False))
        for number in range(start, start + count):
            token = f"00000000-0000-4000-8000-{number:012d}"
            store.sell(product_id="pro_monthly", buyer=f"buyer{number}", account_token=token)
        await store.move(sold_at + 31 * DAY + 2 * HOUR)
        written = [json.encode({"signedPayload": one.content.signed_payload}) for one in store.outbox.messages]
        assert len(written) == 2 * count
        bought += written[:count]
        renewed += written[count:]
    later = min(LATER, customers)
    letters = bought[:later]
    for one, other in zip(bought[later:], renewed, strict=False):
        letters += one, other
    return letters + renewed[customers - later :]


async def _applied(ground: Ground) -> None:
    deadline = time.perf_counter() + 300
    while await ground.database.pool.fetchval(WAITING):
        assert time.perf_counter() < deadline, "the journal is not worked off"
        await asyncio.sleep(0.05)


async def _check(ground: Ground, customers: int) -> None:
    pool = ground.database.pool
    journal = {row["status"]: row["count"] for row in await pool.fetch(BY_STATUS)}
    assert journal == {"applied": 2 * customers}, journal
    events = {row["type"]: row["count"] for row in await pool.fetch(BY_TYPE)}
    assert events == {"INITIAL_PURCHASE": customers, "RENEWAL": customers}, events
    owners = await pool.fetchval(OWNERS)
    assert owners == customers, f"{owners} customers instead of {customers}"


async def _ceiling(ground: Ground, keys: AppleKeys, letters: Sequence[bytes]) -> float:
    root = base64.b64encode(keys.chain.root_pem.encode()).decode()
    words = [root, str(ground.certificates.cert), str(ground.certificates.key)]
    async with (
        ground.listening("bench.verifying", *words) as (url, _),
        client(ground.certificates.authority) as http,
    ):
        await measure(_poster(http, url, letters), CONNECTIONS, len(letters) // 10)
        return (await measure(_poster(http, url, letters), CONNECTIONS, len(letters))).per_second


def _poster(http: Client, url: str, letters: Sequence[bytes]) -> Callable[[int], Coroutine[Any, Any, None]]:
    async def post(number: int) -> None:
        request = http.post(url).header("content-type", "application/json").body_bytes(letters[number]).build()
        response = await request.send()
        if response.status != 200:
            raise RuntimeError(f"status {response.status}: {await response.text()}")
        await response.bytes()

    return post


def _month_before(at: Ms) -> Ms:
    """A moment one calendar month before `at`, or up to three days later: months differ in length."""
    return next(start for days in range(28, 32) if add(start := at - days * DAY, Duration(months=1)) >= at)
