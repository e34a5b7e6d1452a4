"""The two hot reads, against a bare handler that batches the same row and returns it unchanged."""

import random
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeAlias

from pyreqwest.client import Client

from bench.ground import Ground
from bench.load import Measured, client, measure
from bench.population import settle, subscriber
from bench.table import Row, against
from latchkey.now import real_now

# The numbers of customers, and of connections for each.
SIZES: dict[int, tuple[int, ...]] = {10_000: (1, 8, 64), 100_000: (1, 64), 1_000_000: (1, 8, 64)}
# Of the ratio, by customers and connections.
BARS = {(100_000, 1): 0.65, (100_000, 64): 0.75}
# The number of rounds, and of requests in each. Short alternating rounds, so that both sides have the same noise.
ROUNDS = {1: (31, 250), 8: (9, 1_000), 64: (31, 2_000)}

Ask: TypeAlias = Callable[[int], Coroutine[Any, Any, None]]


async def run(ground: Ground, sizes: Mapping[int, tuple[int, ...]] = SIZES) -> list[Row]:
    rows: list[Row] = []
    at_64: dict[tuple[str, int], float] = {}
    settled = 0
    for size, loads in sizes.items():
        await settle(ground.database, f"u{size}-", subscriber(real_now()), size - settled)
        asking = [f"u{size}-{n}" for n in random.Random(size).choices(range(size - settled), k=50_000)]
        settled = size
        async with (
            ground.ceiling("reads") as bare_url,
            ground.service("api") as url,
            client(ground.certificates.authority, ground.key) as http,
        ):
            bare = _asker(http, f"{bare_url}/", asking)
            for version, path in (("V1", "/v1/subscribers/"), ("V2", f"/v2/projects/{ground.project_id}/customers/")):
                await _check(http, url + path, asking[0], version)
                for connections in loads:
                    ceiling, measured = await _in_turns(bare, _asker(http, url + path, asking), connections)
                    name = f"{version} read, {size:,} customers, {connections} connection{'s' * (connections > 1)}"
                    bar = BARS.get((size, connections))
                    rows.append(against(name, measured.per_second, "/s", ceiling.per_second, bar))
                    if connections == 64:
                        at_64[version, size] = measured.per_second
    fewest, most = min(sizes), max(sizes)
    if fewest != most:
        for version in ("V1", "V2"):
            growth = at_64[version, fewest] / at_64[version, most] - 1
            name = f"{version} read: dearer with {most:,} customers than with {fewest:,}"
            rows.append(Row(name, growth * 100, "%", bar="≤ 20 %", holds=growth <= 0.2))
    return rows


async def _in_turns(bare: Ask, ask: Ask, connections: int) -> tuple[Measured, Measured]:
    """The median of many short rounds of each. The best of a few would be luck: a shared machine sometimes runs half as
    fast again for a second."""
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
