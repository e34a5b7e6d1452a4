"""Moving a project to another node with Citus's own commands, while purchases and deliveries go on."""

import asyncio
import itertools
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import asyncpg

from latchkey.database.distribution.distribute import distribute
from latchkey.database.migrate import migrate
from latchkey.database.pool import Database, connect
from latchkey.database.sealing import Sealer
from latchkey.domain.stores.test_store.orders import Action
from latchkey.engine.changes import Changes
from latchkey.http.front import as_api_error
from latchkey.now import real_now
from latchkey.process.local_ca.authority import ensure_certificates
from latchkey.settings import Settings
from latchkey.subjects.test_store import usecases as test_store
from latchkey.subjects.webhooks.delivery.role import make_worker, run_delivery
from latchkey.subjects.webhooks.receiver import ReceivedWebhook, Receiver, listening, tls
from latchkey.subjects.webhooks.rules import Setup
from latchkey.subjects.webhooks.usecases.registry import Registry
from tests.connections import connected
from tests.engine.fixtures import new_project
from tests.patience import until

SECRET = bytes(range(32))
SHARDS = 4
CUSTOMERS = 10

# The commands of docs/scaling.md. Without `block_writes`, Citus 14.0 waits for ever if rows of the shard change
# meanwhile (its issue 6790).
ISOLATE = "select isolate_tenant_to_new_shard('feeds', '{project}', 'CASCADE', 'block_writes')"
MOVE = """
select citus_move_shard_placement(s.shardid, s.nodename, s.nodeport, '{host}', {port})
from citus_shards s
where s.shardid = get_shard_id_for_distribution_column('feeds', '{project}')
"""
HOME = """
select s.nodename as host, s.nodeport as port, s.shardid as shard from citus_shards s
where s.shardid = get_shard_id_for_distribution_column('feeds', $1::text)
"""


@dataclass
class Load:
    """Purchases in several projects, one after the other by each writer, and a worker that delivers them."""

    database: Database
    projects: Sequence[str]
    arrivals: list[ReceivedWebhook]
    acknowledged: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    refused: list[Exception] = field(default_factory=list)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    _numbers: Any = field(default_factory=itertools.count)

    async def write(self, project: str) -> None:
        changes = Changes(self.database, real_now)
        while not self.stop.is_set():
            number = next(self._numbers)
            # New customers, whose purchase is one statement, and known ones, who get coins under locks.
            is_new = number % 3 == 0
            action = Action(
                name="purchase",
                app_user_id=f"new{number}" if is_new else f"user{number % CUSTOMERS}",
                new_id=f"test_{number}",
                product_id="pro_monthly" if is_new else "coins_100",
            )
            try:
                done = await test_store.act(changes, project, action)
            except Exception as error:
                # Whoever buys would be told so, and buy again.
                self.refused.append(error)
                await asyncio.sleep(0.02)
                continue
            self.acknowledged[project] += [event.id for event in done.events]

    async def until_bought(self, more: int, projects: Sequence[str] = ()) -> None:
        """Until every project, or each of these, has so many more events than now."""
        before = {project: len(self.acknowledged[project]) for project in projects or self.projects}

        async def enough() -> bool:
            return all(len(self.acknowledged[one]) >= first + more for one, first in before.items())

        await until(enough, lambda: f"{self.refused[-3:]} {dict(self.acknowledged)}", every=0.01)

    async def until_arrived(self, project: str) -> None:
        """Until the newest event that was acknowledged by now has been delivered."""
        newest = self.acknowledged[project][-1]

        async def is_there() -> bool:
            return any(one.event.id == newest for one in self.arrivals)

        await until(is_there, lambda: f"{project}: {newest} is not among {len(self.arrivals)}", every=0.05)

    async def during(self, url: str, statement: str) -> None:
        """Run a statement of Citus meanwhile."""
        async with connected(asyncpg.connect(url)) as connection:
            await connection.execute(statement)
        # Whoever waits for the end of it is acknowledged after it.
        await self.until_bought(1)


async def projects_beside(url: str, count: int) -> list[str]:
    """Ids for projects of which Citus puts the first two into the same shard."""
    async with connected(asyncpg.connect(url)) as connection:
        shard_of = {
            row["id"]: row["shard"]
            for row in await connection.fetch(
                "select id, get_shard_id_for_distribution_column('feeds', id) as shard"
                " from (select 'proj_' || i as id from generate_series(1, 40) i) as made"
            )
        }
    first = "proj_1"
    beside = next(id for id, shard in shard_of.items() if id != first and shard == shard_of[first])
    others = [id for id, shard in shard_of.items() if shard != shard_of[first]]
    return [first, beside, *others[: count - 2]]


@asynccontextmanager
async def loaded(url: str, folder: Path, projects: Sequence[str]) -> AsyncIterator[Load]:
    """Two writers for each project, one webhook for each, and the delivery role, until the end of the block. Afterwards
    every delivery has been made."""
    certificates = ensure_certificates(folder / "tls", [], real_now())
    arrivals: list[ReceivedWebhook] = []
    async with (
        Database(url, max_size=4 * len(projects)) as database,
        listening(
            Receiver(lambda arrival, _: arrivals.append(arrival)), tls(certificates.cert, certificates.key)
        ) as port,
    ):
        for project in projects:
            await new_project(database, project, real_now())
            setup = Setup(name="receiver", url=f"https://127.0.0.1:{port}/{project}", authorization="Bearer x")
            await Registry(database, Sealer(SECRET)).add(project, setup, real_now())
        settings = Settings(
            database_url=url,
            secret_key=SECRET,
            webhook_allow_networks=(ip_network("127.0.0.0/8"),),
            webhook_extra_ca=certificates.authority,
            # Leases are as long.
            webhook_timeout_ms=5_000,
            drain_seconds=1,
        )
        load, stopped = Load(database, projects, arrivals), asyncio.Event()
        working = asyncio.create_task(run_delivery(make_worker(database, settings), database, settings, stopped))
        writing = [asyncio.create_task(load.write(project)) for project in projects for _ in range(2)]
        try:
            yield load
        finally:
            load.stop.set()
            await asyncio.gather(*writing)
            await until(lambda: _is_empty(url), "not everything was delivered", every=0.1)
            stopped.set()
            await working


async def _is_empty(url: str) -> bool:
    async with connected(asyncpg.connect(url)) as connection:
        return not await connection.fetchval("select count(*) from lanes")


async def compare(url: str, load: Load) -> None:
    """No event is lost or doubled, no position of a feed is left out, and everything arrived, in order for each
    customer. A purchase was refused only in ways that clients are told to repeat."""
    final = [repr(error) for error in load.refused if as_api_error(error).status != HTTPStatus.SERVICE_UNAVAILABLE]
    assert not final, f"{len(final)} purchases were refused for good, the first with {final[0]}"
    async with connected(asyncpg.connect(url)) as connection:
        for project in load.projects:
            rows = await connection.fetch(
                "select position, id, customer_id, sequence from events where project_id = $1 order by position",
                project,
            )
            ids = [row["id"] for row in rows]
            assert [row["position"] for row in rows] == list(range(1, len(rows) + 1)), project
            assert len(set(ids)) == len(ids), project
            missing = set(load.acknowledged[project]) - set(ids)
            assert not missing, f"{project}: {len(missing)} acknowledged events are lost"
            if not load.refused:
                assert sorted(ids) == sorted(load.acknowledged[project]), project
            heads = await connection.fetchval("select position from feeds where project_id = $1", project)
            assert heads == len(rows), project
            unsent = await connection.fetchval(
                "select count(*) from deliveries where project_id = $1 and status <> 'delivered'", project
            )
            assert unsent == 0, project
            _arrived_in_order(
                project, load.arrivals, {row["id"]: (row["customer_id"], row["sequence"]) for row in rows}
            )


def _arrived_in_order(project: str, arrivals: Sequence[ReceivedWebhook], places: dict[str, tuple[int, int]]) -> None:
    firsts: dict[str, None] = {}
    for arrival in arrivals:
        if arrival.path.strip("/") == project:
            firsts.setdefault(arrival.event.id)
    assert firsts.keys() == places.keys(), f"{project}: {len(places.keys() - firsts.keys())} events did not arrive"
    seen: dict[int, list[int]] = defaultdict(list)
    for id in firsts:
        customer, sequence = places[id]
        seen[customer].append(sequence)
    assert all(sequences == sorted(sequences) for sequences in seen.values()), project


async def prepare(url: str) -> None:
    async with connected(connect(url)) as connection:
        await migrate(connection)
        await distribute(connection, shards=SHARDS)


async def elsewhere(url: str, project: str) -> tuple[asyncpg.Record, asyncpg.Record]:
    """Where a project is, and a worker that does not have it."""
    async with connected(asyncpg.connect(url)) as connection:
        here = await connection.fetchrow(HOME, project)
        assert here is not None
        there = await connection.fetchrow(
            "select nodename as host, nodeport as port from pg_dist_node"
            " where shouldhaveshards and (nodename, nodeport) <> ($1, $2) order by nodeid",
            here["host"], here["port"],
        )  # fmt: skip
    assert there is not None, "there is no other worker"
    return here, there
