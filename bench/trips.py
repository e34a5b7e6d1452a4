"""Round trips to PostgreSQL, counted by a proxy: of one lone request, of a purchase under a steady load, and idle.

Each role has a process of its own here, so that each has connections of its own. The proxy slows everything down, so
nothing is timed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from statistics import median
from typing import TypeAlias

from bench.buying import Ask, System, apart, ceiling
from bench.ground import Ground
from bench.load import at_rate
from bench.table import Row, say
from bench.tap import Tap, Trip

Lone: TypeAlias = Mapping[str, Callable[[int], Awaitable[None]]]
# By what was done and by the name of the connection.
Counts: TypeAlias = dict[tuple[str, str], float]

RATES = (50, 200)
SECONDS = 5
STEADY = {f"trips{rate}": rate * SECONDS for rate in RATES}
WARM_UP = 300
# Lone requests of each kind; the median counts, because periodic work may fall into one of them.
LONE = 5
# How long the background may go on after a request.
AFTERWARDS = 1.5

# Until the last customers of the load are counted: two batches, some five seconds apart. Only then it is idle.
SETTLED = 15
# Long enough for a sweep of the delivery role.
IDLE_SECONDS = 10

# By role, the names of its connections: ours and the ceiling's.
CLIENTS = {
    "api": ("latchkey api", "bare steady"),
    "delivery": ("latchkey delivery", "bare delivery"),
    "clock": ("latchkey clock", ""),
}
# Of a lone request, in the api, until it is answered.
# The look and the write; the app's key, and with the App Store the app's connection, are read every 2 s.
PURCHASES = {
    "App Store purchase of a new customer": 4,
    "App Store purchase of a known customer": 4,
    "test store purchase": 3,
}
MOST = {**PURCHASES, "V1 read": 1, "V2 read": 1}
IDLE = "idle for a second"
# After the answer: about once a second the api writes what it has collected from all requests of that second.
LATER = "api in the background"


async def run(ground: Ground) -> list[Row]:
    return await count(ground, listing=True)


async def count(ground: Ground, *, listing: bool = False) -> list[Row]:
    """With `listing`, also print the statements of a lone request of each kind."""
    async with Tap(ground.server.url()) as tap, ceiling(ground, tap.url) as system:
        buyers = await _buyers(system)
        bare = await _count(tap, system, buyers, dict.fromkeys(PURCHASES, buyers["lone"]))
    async with Tap(ground.server.url()) as tap, apart(ground, tap.url) as system:
        buyers = await _buyers(system)
        ours = await _count(tap, system, buyers, _lone(system, buyers["lone"], ground.project_id), listing)
    rows = [
        _row(f"lone {what}: round trips, {role}", ours, bare, (what, role), most if role == "api" else None)
        for what, most in MOST.items()
        for role in CLIENTS
        if role == "api" or what in PURCHASES
    ]
    rows += [_row(f"lone {what}: round trips, {LATER}", ours, bare, (what, LATER)) for what in MOST]
    rows += [
        _row(f"{what}: round trips, {role}", ours, bare, (what, role))
        for what in (*map(_at, RATES), IDLE)
        for role in CLIENTS
    ]
    return rows


async def _buyers(system: System) -> dict[str, Ask]:
    counts = {"trips": WARM_UP, "lone": 4 * (LONE + 1), **STEADY}
    return {prefix: await system.buyer(prefix, purchases) for prefix, purchases in counts.items()}


def _lone(system: System, buy: Ask, project_id: str) -> Lone:
    v1, v2 = "/v1/subscribers/", f"/v2/projects/{project_id}/customers/"

    async def get(path: str) -> None:
        response = await system.http.get(system.url + path).build().send()
        assert response.status == 200, response.status
        await response.bytes()

    # Of four receipts in a row, the first two are the App Store's.
    kinds = (
        lambda number: buy(4 * number),
        lambda number: buy(4 * number + 1),
        lambda number: buy(4 * number + 2),
        lambda number: get(f"{v1}lone-known{number}"),
        lambda number: get(f"{v2}lone-known{number}"),
    )
    return dict(zip(MOST, kinds, strict=True))


async def _count(tap: Tap, system: System, buyers: Mapping[str, Ask], lone: Lone, listing: bool = False) -> Counts:
    say(f"{system.name}: counting round trips")
    counts: Counts = {}
    await at_rate(buyers["trips"], max(RATES), WARM_UP)
    recorded = WARM_UP
    await system.until_recorded(recorded)
    for what, do in lone.items():
        found, answered = [], []
        # The first one is not counted: its statements are prepared.
        for number in range(LONE + 1):
            await asyncio.sleep(AFTERWARDS)
            before = len(tap.trips)
            await do(number)
            answered.append(len(tap.trips) - before)
            recorded += what in PURCHASES
            await system.until_recorded(recorded)
            await asyncio.sleep(AFTERWARDS)
            found.append(tap.trips[before:])
        lone_ones = list(zip(found, answered, strict=True))[1:]
        counts |= {(what, role): median(_of(role, trips) for trips, _ in lone_ones) for role in CLIENTS}
        counts[what, "api"] = median(_of("api", trips[:until]) for trips, until in lone_ones)
        counts[what, LATER] = median(_of("api", trips[until:]) for trips, until in lone_ones)
        if listing:
            _list(what, found[-1])
    for rate in RATES:
        say(f"{system.name}: counting round trips at {rate} purchases a second")
        count = rate * SECONDS
        recorded += count
        before = len(tap.trips)
        await at_rate(buyers[f"trips{rate}"], rate, count)
        await system.until_recorded(recorded)
        await asyncio.sleep(AFTERWARDS)
        trips = tap.trips[before:]
        counts |= {(_at(rate), role): _of(role, trips) / count for role in CLIENTS}
    await asyncio.sleep(SETTLED)
    before = len(tap.trips)
    await asyncio.sleep(IDLE_SECONDS)
    trips = tap.trips[before:]
    counts |= {(IDLE, role): _of(role, trips) / IDLE_SECONDS for role in CLIENTS}
    return counts


def _at(rate: int) -> str:
    return f"purchase at {rate}/s"


def _of(role: str, trips: Sequence[Trip]) -> int:
    return sum(trip.client in CLIENTS[role] for trip in trips)


def _list(what: str, trips: Sequence[Trip]) -> None:
    """The statements, in their order: for whoever wants to save one."""
    say(f"lone {what}:")
    for trip in trips:
        say(f"    {trip.client}: {trip.statement[:100]}")


def _row(name: str, ours: Counts, bare: Counts, key: tuple[str, str], most: int | None = None) -> Row:
    value, ceiling = ours[key], bare.get(key)
    if most is None:
        return Row(name, value, "", ceiling)
    return Row(name, value, "", ceiling, bar=f"≤ {most}", holds=value <= most)
