"""A pair of servers, the service on them, a receiver of its webhooks, and buyers; and what must hold in the end."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg

from latchkey.database.pool import Database
from latchkey.database.sealing import Sealer
from latchkey.subjects.demo.usecases.project import PROJECT_ID
from latchkey.subjects.webhooks.rules import Setup
from latchkey.subjects.webhooks.usecases.registry import Registry
from tests.connections import connected, migrated
from tests.crash.books import audit
from tests.databases import drained
from tests.failover.cluster import Pair
from tests.failover.service import Buyer, Service, open_shop
from tests.patience import until, wait_until
from tests.subjects.webhooks.delivery import certificates
from tests.subjects.webhooks.delivery.processes import SECRET_KEY, Receiver, in_order


@dataclass
class Scene:
    folder: Path
    certs: certificates.Certificates
    pair: Pair
    receiver: Receiver
    service: Service
    buyers: list[Buyer] = field(default_factory=list)

    @property
    def bought(self) -> int:
        return sum(len(buyer.bought) for buyer in self.buyers)

    async def until(self, met: Callable[[], object], what: str) -> None:
        def still() -> object:
            assert self.service.is_alive(), self.service.log.read_text()[-3000:]
            return met()

        await asyncio.to_thread(wait_until, still, lambda: f"{what}: {self.service.log.read_text()[-3000:]}")

    async def until_bought(self, more: int) -> None:
        enough = self.bought + more
        await self.until(lambda: self.bought >= enough, f"{more} more purchases")

    async def until_ready(self) -> float:
        await self.until(lambda: self.service.ready()[0] == 200, "ready")
        return time.monotonic()

    async def until_without_primary(self) -> None:
        def told() -> bool:
            status, reason = self.service.ready()
            return status == 503 and "no primary" in reason

        await self.until(told, "not ready, because there is no primary")

    async def until_delivered(self, more: int = 1, since: int | None = None) -> float:
        enough = (len(self.receiver.arrivals()) if since is None else since) + more
        await self.until(lambda: len(self.receiver.arrivals()) >= enough, "more deliveries")
        return time.monotonic()

    async def synchronise(self) -> None:
        """From now on the primary answers only when the standby has the change, and the service has noticed it: until
        the standby has that too, a failover counts as one that may have lost commits."""
        await self.pair.synchronise()
        async with (
            connected(asyncpg.connect(self.pair.primary.url())) as primary,
            connected(asyncpg.connect(self.pair.standby.url())) as standby,
        ):

            async def is_noted() -> bool:
                query = "select waits_for_standby, timeline, noted_at from server_identity"
                noted, followed = await primary.fetchrow(query), await standby.fetchrow(query)
                writes_to = int((await primary.fetchval("select pg_walfile_name(pg_current_wal_lsn())"))[:8], 16)
                return noted == followed and noted is not None and (*noted.values(),)[:2] == (True, writes_to)

            await until(is_noted, "nobody has noticed, or the standby does not know it")

    async def start_again(self) -> None:
        """Kill the service and start it anew: it has seen nothing of what happened before."""
        self.service.kill()
        self.service = await asyncio.to_thread(Service, self.folder, self.pair.url, self.certs.authority)
        for buyer in self.buyers:
            buyer.address = self.service.address

    async def has_lost_nothing(self, figures: Counter[str] | None = None) -> None:
        await nothing_is_lost(self.pair.url, self.buyers, self.receiver, figures)
        assert all("retry-after" in reply.headers for buyer in self.buyers for reply in buyer.refused)


async def nothing_is_lost(
    url: str, buyers: Sequence[Buyer], receiver: Receiver, figures: Counter[str] | None = None
) -> int:
    """Every acknowledged purchase is there once; every event arrived, in order; and none that is not there. How many
    events there are."""
    figures = Counter() if figures is None else figures
    for buyer in buyers:
        await asyncio.to_thread(buyer.stop)
    async with Database(url) as database:
        await drained(database)
        _, events = await audit(database)
    sold = Counter(
        (event["transaction_id"], user)
        for user, told in events.items()
        for event in told
        if event["type"] == "NON_RENEWING_PURCHASE"
    )
    acknowledged = {(token, user) for buyer in buyers for token, user in buyer.bought.items()}
    ids = {one["id"] for told in events.values() for one in told}
    figures["committed"] = len(ids)
    figures["lost"] = len(acknowledged - sold.keys())
    figures["doubled"] = sold.total() - len(sold)
    assert acknowledged <= sold.keys(), f"lost: {acknowledged - sold.keys()}"
    assert set(sold.values()) == {1}, "a repeated purchase counts twice"
    refused = [reply for buyer in buyers for reply in buyer.refused]
    assert {reply.status for reply in refused} <= {503}, {reply.body for reply in refused}
    arrivals = receiver.arrivals()
    assert {one.event_id for one in arrivals if one.taken} == ids
    assert in_order(arrivals)
    return len(ids)


@asynccontextmanager
async def staged(
    folder: Path, certs: certificates.Certificates, *, buyers: int = 2, ports: tuple[int, int] = (0, 0)
) -> AsyncIterator[Scene]:
    with ExitStack() as processes:
        pair = processes.enter_context(Pair(folder, ports))
        await asyncio.to_thread(pair.create)
        receiver = processes.enter_context(Receiver(folder, certs.good))
        await migrated(pair.primary.url())
        async with Database(pair.primary.url()) as database:
            demo = await open_shop(database)
            setup = Setup(name="shop", url=receiver.url("/"), retry_seconds=(1,) * 30)
            await Registry(database, Sealer(SECRET_KEY)).add(PROJECT_ID, setup, 0)
        await pair.synchronise()
        service = await asyncio.to_thread(Service, folder, pair.url, certs.authority)
        scene = Scene(folder, certs, pair, receiver, service)
        processes.callback(lambda: scene.service.stop())
        for number in range(buyers):
            buyer = Buyer(service.address, demo.public_key, f"{'abcdef'[number]}")
            scene.buyers.append(buyer)
            processes.callback(buyer.stop)
            buyer.start()
        await scene.until_bought(10)
        yield scene
