"""A service on a plain PostgreSQL that is taken over into a cluster while buyers buy.

`python -m tests.citus.relocating` does it with more purchases, and says how long nobody could buy.
"""

from __future__ import annotations

import asyncio
import base64
import re
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from rich.console import Console

from latchkey.cli.migration import run as run_migrations
from latchkey.delivery.sealing import Sealer
from latchkey.delivery.webhook import Setup, Webhooks
from latchkey.storage.database import Database, connect
from latchkey.storage.embedded.server import EmbeddedServer
from latchkey.storage.migrate import migrate
from latchkey.usecases.sandbox.demo import PROJECT_ID
from tests.citus.cluster import HOW_TO_RUN, cluster, is_named
from tests.cli.running import Running
from tests.delivery import certificates
from tests.delivery.processes import SECRET_KEY, Receiver
from tests.failover.scene import nothing_is_lost
from tests.failover.service import Buyer, open_shop
from tests.patience import wait_until

SHARDS = 4
# As an operator has to set it. The rest is for tests.
PLAIN = {"wal_level": "logical", "fsync": "off", "full_page_writes": "off", "autovacuum": "off"}


@dataclass
class Scene:
    old_url: str
    new_url: str
    settings: dict[str, str]
    receiver: Receiver
    old: Running
    stack: AsyncExitStack
    buyers: list[Buyer] = field(default_factory=list)

    @property
    def bought(self) -> int:
        return sum(len(buyer.bought) for buyer in self.buyers)

    async def until_bought(self, more: int) -> None:
        enough = self.bought + more
        await self._until(lambda: self.bought >= enough, lambda: f"{more} more purchases: {self.old.output[-3000:]}")

    async def _until(self, met: Callable[[], object], words: Callable[[], str]) -> None:
        await asyncio.to_thread(wait_until, met, words)

    def command(self, *words: str) -> Running:
        """`latchkey admin cluster`, as an operator runs it beside the service."""
        environment = {"LATCHKEY_DATABASE_URL": self.old_url, "LATCHKEY_CLUSTER_URL": self.new_url}
        return self.stack.enter_context(Running("admin", "cluster", *words, **environment))

    async def done(self, *words: str) -> str:
        running = self.command(*words)
        code = await asyncio.to_thread(running.ended)
        assert code == 0, running.output
        return running.output

    def start_new(self) -> Running:
        """The service with the new address. It waits for the switch."""
        return self.stack.enter_context(
            Running("serve", "--workers", "1", **{**self.settings, "LATCHKEY_DATABASE_URL": self.new_url})
        )

    def send_to(self, serving: Running) -> threading.Thread:
        """As a proxy would: everybody is sent to the new processes as soon as they are ready."""

        def move() -> None:
            port = serving.wait_for_event("ready")["port"]
            for buyer in self.buyers:
                buyer.port = port

        thread = threading.Thread(target=move, daemon=True)
        thread.start()
        return thread

    @property
    def longest_silence(self) -> float:
        """Seconds without an acknowledged purchase."""
        times = sorted(at for buyer in self.buyers for at in buyer.times)
        return max(after - before for before, after in pairwise(times))

    async def has_lost_nothing(self) -> int:
        return await nothing_is_lost(self.new_url, self.buyers, self.receiver)


@asynccontextmanager
async def staged(folder: Path, new_url: str, *, buyers: int = 2) -> AsyncIterator[Scene]:
    """The service on a plain server with buyers, and an empty distributed database."""
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    certs = certificates.make(folder / "certificates")
    async with AsyncExitStack() as stack:
        server = EmbeddedServer(folder / "plain", settings=PLAIN)
        server.start()
        stack.callback(server.stop)
        receiver = stack.enter_context(Receiver(folder, certs.good))
        connection = await connect(server.url())
        await migrate(connection)
        await connection.close()
        async with Database(server.url()) as database:
            demo = await open_shop(database)
            setup = Setup(name="shop", url=receiver.url("/"), retry_seconds=(1,) * 30)
            await Webhooks(database, Sealer(SECRET_KEY)).create(PROJECT_ID, setup, 0)
        await run_migrations(new_url, False, False, Console(quiet=True), distributed=True, shards=SHARDS)
        settings = {
            "LATCHKEY_DATABASE_URL": server.url(),
            "LATCHKEY_SECRET_KEY": base64.b64encode(SECRET_KEY).decode(),
            "LATCHKEY_BEHIND_PROXY": "true",
            "LATCHKEY_HOST": "127.0.0.1",
            "LATCHKEY_PORT": "0",
            "LATCHKEY_WEBHOOK_EXTRA_CA": str(certs.authority),
            "LATCHKEY_WEBHOOK_ALLOW_NETWORKS": "127.0.0.0/8,::1/128",
            "LATCHKEY_WEBHOOK_TIMEOUT_MS": "5000",
            "LATCHKEY_ADDRESS_REQUESTS_PER_MINUTE": "0",
            "LATCHKEY_LOG_FORMAT": "json",
        }
        old = stack.enter_context(Running("serve", "--workers", "1", **settings))
        port = (await asyncio.to_thread(old.wait_for_event, "ready"))["port"]
        scene = Scene(server.url(), new_url, settings, receiver, old, stack)
        for number in range(buyers):
            buyer = Buyer(port, demo.public_key, "abcdef"[number])
            scene.buyers.append(buyer)
            stack.callback(buyer.stop)
            buyer.start()
        await scene.until_bought(10)
        yield scene


async def relocate(scene: Scene, purchases: int) -> float:
    """Copy, follow, switch; how many seconds nobody could write."""
    following = scene.command("follow")
    await asyncio.to_thread(following.wait_for, "All rows are copied")
    serving = await asyncio.to_thread(scene.start_new)
    await asyncio.to_thread(serving.wait_for_event, "waiting")
    moved = scene.send_to(serving)
    await scene.until_bought(purchases)
    following.ctrl_c()
    said = await scene.done("switch")
    await asyncio.to_thread(moved.join)
    await scene.until_bought(purchases)
    await asyncio.to_thread(scene.old.terminate)
    found = re.search(r"Nobody could write for ([\d.]+) s", said)
    assert found is not None, said
    return float(found[1])


def say(words: str) -> None:
    sys.stdout.write(f"{words}\n")


async def measure(purchases: int) -> None:
    with tempfile.TemporaryDirectory(prefix="latchkey-relocating-") as made:
        folder = Path(made)
        async with cluster(folder / "citus") as nodes, nodes.database() as url, staged(folder, url) as scene:
            seconds = await relocate(scene, purchases)
            events = await scene.has_lost_nothing()
            say(f"{events:,} events, none lost or doubled, all delivered in order")
            say(
                f"nobody could write for {seconds:.2f} s; longest time without a purchase {scene.longest_silence:.2f} s"
            )


if __name__ == "__main__":
    if not is_named():
        sys.exit(f"NOT MEASURED: no Citus cluster is named. {HOW_TO_RUN}")
    asyncio.run(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000))
