"""The two reads, against a bare handler that batches the same row and returns it as it is."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeAlias

from pyreqwest.client import Client

from bench.ground import Ground
from bench.load import Measured, client, measure
from bench.population import settle, subscriber
from bench.table import Row, against
from latchkey.now import real_now

CONNECTIONS = (1, 8, 64)
SIZES = (10_000, 1_000_000)
BAR = 0.7
COUNTS = {1: 1_500, 8: 6_000, 64: 20_000}

Ask: TypeAlias = Callable[[int], Coroutine[Any, Any, None]]


async def run(ground: Ground, sizes: tuple[int, ...] = SIZES) -> list[Row]:
    rows: list[Row] = []
    at_64: dict[tuple[str, int], float] = {}
    settled = 0
    for size in sizes:
        await settle(ground.database, f"u{size}-", subscriber(real_now()), size - settled)
        settled = size
        asking = [
            f"u{size}-{n}"
            for n in random.Random(size).choices(range(size - (0 if size == sizes[0] else sizes[0])), k=50_000)
        ]
        async with (
            ground.ceiling("reads") as bare_url,
            ground.service("api") as url,
            client(ground.certificates.authority, ground.key) as http,
        ):
            bare = _asker(http, f"{bare_url}/", asking)
            for version, path in (("V1", "/v1/subscribers/"), ("V2", f"/v2/projects/{ground.project_id}/customers/")):
                await _check(http, url + path, asking[0], version)
                for connections in CONNECTIONS:
                    ceiling, measured = await _best_of_both(bare, _asker(http, url + path, asking), connections)
                    name = f"{version} read, {size:,} customers, {connections} connection{'s' * (connections > 1)}"
                    bar = BAR if connections == 64 else None
                    rows.append(against(name, measured.per_second, "/s", ceiling.per_second, bar))
                    if connections == 64:
                        at_64[version, size] = measured.per_second
    if len(sizes) > 1:
        for version in ("V1", "V2"):
            growth = at_64[version, sizes[0]] / at_64[version, sizes[-1]] - 1
            name = f"{version} read: dearer with {sizes[-1]:,} customers than with {sizes[0]:,}"
            rows.append(Row(name, growth * 100, "%", bar="≤ 20 %", holds=growth <= 0.2))
    return rows


async def _best_of_both(bare: Ask, ask: Ask, connections: int) -> tuple[Measured, Measured]:
    """The best of three rounds of each, after a short one to warm up: noise only ever slows. They take turns, so that
    both meet the same noise."""
    count = COUNTS[connections]
    for one in (bare, ask):
        await measure(one, connections, count // 10)
    rounds = [(await measure(bare, connections, count), await measure(ask, connections, count)) for _ in range(3)]
    return _fastest(one for one, _ in rounds), _fastest(one for _, one in rounds)


def _fastest(rounds: Iterable[Measured]) -> Measured:
    return max(rounds, key=lambda one: one.per_second)


def _asker(http: Client, base: str, asking: list[str]) -> Ask:
    async def ask(number: int) -> None:
        response = await http.get(base + asking[number % len(asking)]).build().send()
        if response.status != 200:
            raise RuntimeError(f"status {response.status}")
        await response.bytes()

    return ask


async def _check(http: Client, base: str, app_user_id: str, version: str) -> None:
    body = await (await http.get(base + app_user_id).build().send()).json()
    if version == "V1":
        assert body["subscriber"]["original_app_user_id"] == app_user_id
        assert "pro" in body["subscriber"]["entitlements"]
    else:
        assert body["id"] == app_user_id
        assert [item["entitlement_id"] for item in body["active_entitlements"]["items"]] == ["pro"]
