"""The two reads, against a bare handler that batches the same row and returns it as it is."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
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
# In how many rounds, and how many requests each. Short ones in turns, so that both sides meet the same noise.
ROUNDS = {1: (9, 250), 8: (9, 1_000), 64: (31, 2_000)}

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
                    ceiling, measured = await _in_turns(bare, _asker(http, url + path, asking), connections)
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


async def _in_turns(bare: Ask, ask: Ask, connections: int) -> tuple[Measured, Measured]:
    """The middle one of many short rounds of each. The best of few would be the luck of one moment: a machine that is
    shared runs half as fast again for a second, now and then."""
    rounds, count = ROUNDS[connections]
    for one in (bare, ask):
        await measure(one, connections, count)
    pairs = [(await measure(bare, connections, count), await measure(ask, connections, count)) for _ in range(rounds)]
    return _middle([one for one, _ in pairs]), _middle([one for _, one in pairs])


def _middle(rounds: list[Measured]) -> Measured:
    return sorted(rounds, key=lambda one: one.per_second)[len(rounds) // 2]


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
