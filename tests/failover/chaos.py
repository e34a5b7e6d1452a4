"""One failover after the other under load, of every kind, until the time is over: `make chaos WHAT=failover`.

The primary is killed, frozen or shut down, and its standby promoted. The old primary comes back as a standby, through
pg_rewind or a new base backup; before that, sometimes, as a server that takes changes, while the service goes on or is
started anew. Sometimes only the standby dies. In the end every purchase that was answered with 200 must be there once,
and every event must have arrived, in order for each customer.
"""

import asyncio
import random
import statistics
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from tests.failover.cluster import free_ports
from tests.failover.scene import Scene, staged
from tests.subjects.webhooks.delivery import certificates

TROUBLES = ("kill", "kill", "freeze", "switch", "crash", "standby")


@dataclass
class Chaos:
    scene: Scene
    chances: random.Random
    done: Counter[str]
    # Seconds after the promotion, by what happened to the old primary: first acknowledged purchase, ready, delivery.
    seconds: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    async def run(self, seconds: float) -> None:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            trouble = self.chances.choice(TROUBLES)
            self.done[trouble] += 1
            await getattr(self, f"_{trouble}")()
            await self.scene.until_ready()
            await self.scene.until_bought(self.chances.randrange(5, 40))

    async def _kill(self) -> None:
        await asyncio.to_thread(self.scene.pair.primary.kill)
        await self._promote("killed")
        await self._old_comes_back()

    async def _freeze(self) -> None:
        await asyncio.to_thread(self.scene.pair.primary.freeze)
        await self._promote("frozen")
        old = self.scene.pair.standby
        if self.chances.random() < 0.5:
            self.done["thawed"] += 1
            await asyncio.to_thread(old.thaw)
            await self.scene.until_bought(self.chances.randrange(20))
        await asyncio.to_thread(old.kill)
        await self._old_comes_back()

    async def _switch(self) -> None:
        """Planned: an orderly shutdown first. The old primary can follow without pg_rewind."""
        await asyncio.to_thread(self.scene.pair.primary.shut_down)
        await self._promote("shut down")
        await asyncio.to_thread(self.scene.pair.follow)
        await self.scene.synchronise()

    async def _crash(self) -> None:
        """The primary dies and is back before anybody was promoted."""
        primary = self.scene.pair.primary
        await asyncio.to_thread(primary.kill)
        await self._pause()
        await asyncio.to_thread(primary.start)

    async def _standby(self) -> None:
        """Without the standby nothing is acknowledged, and nothing is lost."""
        standby = self.scene.pair.standby
        await asyncio.to_thread(standby.kill)
        await self._pause()
        await asyncio.to_thread(standby.start)
        await self.scene.synchronise()

    async def _promote(self, what: str) -> None:
        await self._pause()
        await asyncio.to_thread(self.scene.pair.fail_over)
        self.done["failovers"] += 1
        promoted, delivered = time.monotonic(), len(self.scene.receiver.arrivals())
        ready = asyncio.create_task(self.scene.until_ready())
        arrived = asyncio.create_task(self.scene.until_delivered(since=delivered))
        await self.scene.until_bought(1)
        first = min(at for buyer in self.scene.buyers if (at := buyer.first_after(promoted)) is not None)
        self.seconds[f"{what}: first acknowledged purchase"].append(first - promoted)
        self.seconds[f"{what}: ready"].append(await ready - promoted)
        self.seconds[f"{what}: first delivery"].append(await arrived - promoted)

    async def _old_comes_back(self) -> None:
        pair, old = self.scene.pair, self.scene.pair.standby
        if self.chances.random() < 0.4:
            self.done["old primary takes changes"] += 1
            old.configure()
            await asyncio.to_thread(old.start)
            if self.chances.random() < 0.5:
                self.done["service started anew"] += 1
                await self.scene.start_again()
                await self.scene.until_ready()
            await self.scene.until_bought(self.chances.randrange(5, 40))
            await asyncio.to_thread(old.kill)
        rewind = self.chances.random() < 0.5
        self.done["rewound" if rewind else "copied anew"] += 1
        await asyncio.to_thread(pair.rejoin, rewind=rewind)
        await self.scene.synchronise()

    async def _pause(self) -> None:
        await asyncio.sleep(self.chances.choice((0, 0, self.chances.uniform(0, 3), self.chances.uniform(0, 20))))


async def run(folder: Path, seed: int, seconds: float, figures: Counter[str]) -> None:
    certs = certificates.make(folder / "certificates")
    async with staged(folder / "pair", certs, ports=free_ports()) as scene:
        chaos = Chaos(scene, random.Random(seed), figures)
        try:
            await chaos.run(seconds)
            await scene.has_lost_nothing(figures)
        finally:
            figures["purchases"] = scene.bought
            figures["refused with 503"] = sum(len(buyer.refused) for buyer in scene.buyers)
            for name, values in sorted(chaos.seconds.items()):
                told = f"median {statistics.median(values):.2f} s, longest {max(values):.2f}, {len(values)} times"
                sys.stdout.write(f"{name}: {told}\n")
