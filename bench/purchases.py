"""Purchases: a new customer, its state, the event and its deliveries, committed before the response."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import json
from pyreqwest.client import Client

from bench.ground import Ground
from bench.load import client, measure
from bench.table import Row

BAR = 3_000
COUNT = 12_000
CONNECTIONS = 64


async def run(ground: Ground) -> list[Row]:
    async with ground.ceiling("purchases") as url, client(ground.certificates.authority) as http:
        bare = _poster(http, lambda n: f"{url}/bare{n}", lambda _: b"{}")
        await measure(bare, CONNECTIONS, COUNT // 10)
        ceiling = await measure(_poster(http, lambda n: f"{url}/bench{n}", lambda _: b"{}"), CONNECTIONS, COUNT)
    path = f"/v2/projects/{ground.project_id}/test_store/actions"

    def purchase(prefix: str) -> Callable[[int], bytes]:
        return lambda n: json.encode({"action": "purchase", "app_user_id": f"{prefix}{n}", "product_id": "pro_monthly"})

    async with ground.service("api") as url, client(ground.certificates.authority, ground.key) as http:
        await measure(_poster(http, lambda _: url + path, purchase("warm")), CONNECTIONS, COUNT // 10)
        measured = await measure(_poster(http, lambda _: url + path, purchase("buyer")), CONNECTIONS, COUNT)
    async with ground.database.acquire() as connection:
        told = await connection.fetchval(
            "select count(*) from events where type = 'INITIAL_PURCHASE' and body::text like '%\"buyer%'"
        )
    assert told == COUNT, f"{told} events for {COUNT} purchases"
    ratio = measured.per_second / ceiling.per_second
    value = measured.per_second
    return [
        Row("purchases, 64 connections", value, "/s", ceiling.per_second, ratio, f"≥ {BAR:,}/s", value >= BAR),
        Row("purchases, p99", measured.p99_ms, "ms"),
    ]


def _poster(
    http: Client, url: Callable[[int], str], body: Callable[[int], bytes]
) -> Callable[[int], Coroutine[Any, Any, None]]:
    async def post(number: int) -> None:
        request = http.post(url(number)).header("content-type", "application/json").body_bytes(body(number)).build()
        response = await request.send()
        if response.status != 200:
            raise RuntimeError(f"status {response.status}: {await response.text()}")
        await response.bytes()

    return post
