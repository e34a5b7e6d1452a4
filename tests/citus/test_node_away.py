"""A worker node crashes under load and comes back: nothing that was acknowledged is lost, what waits is delivered
afterwards, and a project on another node is not disturbed meanwhile."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from latchkey.database.errors import NodeAwayError
from latchkey.engine.clock import pass_time
from latchkey.engine.reads import Reader
from latchkey.engine.storage.catalog.catalogs import Catalogs
from latchkey.engine.storage.scans import look_out
from latchkey.now import real_now
from latchkey.observability import storage as watching
from latchkey.subjects.api_keys.usecases import create_secret_key, hash_of
from tests import machine
from tests.citus.cluster import BIN, Cluster
from tests.citus.moving import HOME, compare, elsewhere, loaded, prepare
from tests.connections import connected

PORT = f"select port from ({HOME}) as home"


async def on_two_nodes(url: str) -> list[str]:
    """Ids for two projects that are on different workers."""
    async with connected(asyncpg.connect(url)) as connection:
        ports = {f"proj_{n}": await connection.fetchval(PORT, f"proj_{n}") for n in range(1, 40)}
    first = "proj_1"
    return [first, next(id for id, port in ports.items() if port != ports[first])]


async def test_a_worker_that_crashes_and_comes_back_loses_nothing_and_disturbs_nobody_else(
    citus: Cluster, citus_url: str, tmp_path: Path
) -> None:
    if not citus.servers:
        machine.skip("Citus", f"A server is crashed and started again: set {BIN}.")
    await prepare(citus_url)
    crashing, other = projects = await on_two_nodes(citus_url)
    home, _ = await elsewhere(citus_url, crashing)
    server = citus.servers[home["port"]]
    async with loaded(citus_url, tmp_path, projects) as load:
        keys = {
            project: hash_of((await create_secret_key(load.database, project, "k", real_now())).plaintext)
            for project in projects
        }
        reader, catalogs = Reader(load.database, Catalogs()), Catalogs()
        await load.until_bought(20)
        await asyncio.gather(*(reader.admit(key, "user0") for key in keys.values()))
        server.crash()
        try:
            # Each look at all projects goes past the node that is away.
            await load.until_bought(20, [other])
            await load.until_arrived(other)
            async with load.database.acquire() as connection:
                await look_out(connection)
            measured = await watching.measure(load.database, real_now(), 100)
            assert sorted(measured.nodes.values()) == [False, True]
            assert not measured.nodes[f"{home['host']}:{home['port']}"]
            await pass_time(load.database, catalogs, real_now())
            # Asked in one batch.
            lost, answer = await asyncio.gather(
                *(reader.admit(keys[one], "user0") for one in projects), return_exceptions=True
            )
            assert isinstance(lost, NodeAwayError)
            assert not isinstance(answer, BaseException)
            assert answer.row is not None
            with pytest.raises(NodeAwayError):
                await reader.read(crashing, "user0")
        finally:
            server.start()
        await load.until_bought(20)
        await load.until_arrived(crashing)
        assert (await reader.admit(keys[crashing], "user0")).row is not None
    await compare(citus_url, load)
