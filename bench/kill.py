"""Latchkey and Svix, each killed in the middle of a burst: what was acknowledged and never arrived, what arrived twice,
and how long the receiver waited for the last of it.

`kill -9` ends what answers requests and delivers. Svix is started again at once; Latchkey's supervisor does that
itself. Clients repeat what was not acknowledged. Only what was acknowledged counts as lost.
"""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass

from msgspec import Raw, json
from pyreqwest.exceptions import PyreqwestError

from bench.buying import System, latchkey
from bench.ground import Ground
from bench.load import measure
from bench.peers import BUYERS
from bench.phones import TEST_STORE, app_user_id
from bench.svix import Installed, svix
from bench.table import Row, say

COUNT, CONNECTIONS, ROUNDS = 1_000, 64, 3
# Longer than any lease, visibility timeout and first retry of either.
PATIENCE = 180
AGAIN = 0.05


@dataclass(frozen=True, slots=True)
class Outcome:
    acknowledged: int
    lost: int
    doubled: int
    # From the kill to the last arrival.
    seconds: float


async def run(ground: Ground, installed: Installed) -> list[Row]:
    rows: list[Row] = []
    async with latchkey(ground) as ours:
        rows += _rows(ours.name, [await _killed(ours, f"kill{number}") for number in range(ROUNDS)], bar=True)
        event = await ours.database.pool.fetchval("select body from events order by position desc limit 1")
        payload = json.encode({"eventType": "purchase", "payload": {"event": Raw(event)}})
        for queue in ("redis", "memory"):
            async with svix(ground, installed, ours, queue) as theirs:
                outcomes = [await _killed(theirs, f"{queue}{number}", payload) for number in range(ROUNDS)]
                rows += _rows(f"{theirs.name}, {queue} queue", outcomes)
    return rows


def _rows(name: str, outcomes: list[Outcome], *, bar: bool = False) -> list[Row]:
    whole = f"{name}: of {sum(one.acknowledged for one in outcomes):,} acknowledged in {ROUNDS} kills,"
    lost = sum(one.lost for one in outcomes)
    return [
        Row(f"{whole} lost", lost, "", bar="0" if bar else "", holds=lost == 0 if bar else None),
        Row(f"{whole} arrived more than once", sum(one.doubled for one in outcomes), ""),
        Row(f"{name}: from a kill to the last arrival, longest", max(one.seconds for one in outcomes), "s"),
    ]


async def _killed(system: System, prefix: str, payload: bytes = b"") -> Outcome:
    say(f"{system.name}: {COUNT:,} by {CONNECTIONS} connections, killed at the half ({prefix})")
    acknowledged: set[str] = set()
    buy = await system.buyer(prefix, COUNT) if not payload else None
    half = asyncio.Event()

    async def send(number: int) -> None:
        while True:
            try:
                if buy is not None:
                    await buy(number)
                    acknowledged.add(app_user_id(prefix, number))
                else:
                    reply = await system.phones.post(system.url, number, TEST_STORE, payload)
                    # The receiver's log is in lower case.
                    acknowledged.add(json.decode(reply)["id"].lower())
                break
            except (PyreqwestError, RuntimeError):
                await asyncio.sleep(AGAIN)
        if len(acknowledged) >= COUNT // 2:
            half.set()

    async def kill() -> float:
        await half.wait()
        at = time.time()
        await system.kill()
        return at

    at, _ = await asyncio.gather(kill(), measure(send, CONNECTIONS, COUNT))
    deadline = time.monotonic() + PATIENCE
    while True:
        arrivals = await _arrivals(system, is_ours=buy is not None)
        lost = len(acknowledged - arrivals.keys())
        if not lost or time.monotonic() > deadline:
            break
        await asyncio.sleep(0.2)
    seconds = time.time() - at if not lost else float("inf")
    doubled = sum(arrivals[name] > 1 for name in acknowledged)
    return Outcome(len(acknowledged), lost, doubled, seconds)


async def _arrivals(system: System, *, is_ours: bool) -> Counter[str]:
    """How often each arrived: by customer, or by the id of the message."""
    lines = (await asyncio.to_thread(system.arrivals.read_text)).splitlines()
    arrived = Counter(line.split(" ")[2] for line in lines)
    if not is_ours:
        return arrived
    buyers = await system.database.pool.fetch(BUYERS)
    return Counter({buyer: arrived[id] for id, buyer in buyers if id in arrived})
