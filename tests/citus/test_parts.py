"""Parts of a distributed database are opened and dropped on its nodes, and nobody there waits long for it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from latchkey.database import migrate as migrating
from latchkey.database.errors import DatabaseBusyError
from latchkey.database.migrate import Migration, migrations
from latchkey.database.pool import Database, connect
from latchkey.subjects.projects.usecases import create_project
from latchkey.subjects.webhooks.storage import lanes as parts
from tests.citus.cluster import Cluster, Node
from tests.citus.moving import HOME
from tests.connections import connected
from tests.http.client import NOW

PROJECT = "proj_of_parts"
# The shard of deliveries that is beside a shard of feeds.
BESIDE = """
select 'deliveries_' || d.shardid
from pg_dist_shard f
join pg_dist_shard d on (d.shardminvalue, d.shardmaxvalue) = (f.shardminvalue, f.shardmaxvalue)
where f.shardid = $1 and d.logicalrelid = 'deliveries'::regclass
"""


@asynccontextmanager
async def holding(address: str, table: str) -> AsyncIterator[None]:
    """With a lock that hinders changes of a shard, as a vacuum has it, taken on the node itself."""
    # Citus would refuse to lock a shard.
    async with (
        connected(asyncpg.connect(address, server_settings={"citus.enable_ddl_propagation": "off"})) as connection,
        connection.transaction(),
    ):
        await connection.execute(f"lock table {table} in share update exclusive mode")
        yield


@pytest.fixture(scope="module")
async def shard(citus: Cluster, spread_url: str) -> tuple[str, str]:
    """The address of a worker, and the name of a shard of deliveries there."""
    async with Database(spread_url, max_size=1) as database:
        await create_project(database, PROJECT, NOW, project_id=PROJECT)
        home = await database.pool.fetchrow(HOME, PROJECT)
        assert home is not None
        name: str = await database.pool.fetchval(BESIDE, home["shard"])
    database_name = spread_url.rpartition("/")[2]
    return citus.url(database_name, Node(home["host"], home["port"])), name


async def test_a_shard_in_use_is_changed_later_and_nobody_waits_long(
    spread_url: str, shard: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "LOCK_TIMEOUT_MS", 20)
    address, name = shard
    async with holding(address, name), Database(spread_url, max_size=1) as database:
        # Without a limit on the node, each would wait until its statement is cancelled, which is another error.
        with pytest.raises(DatabaseBusyError):
            await parts.open_part(database, 1, NOW)
        with pytest.raises(DatabaseBusyError):
            await parts.drop(database, 0, NOW)
        assert [one.number for one in await parts.known(database)] == [0]


async def test_a_migration_gives_up_on_a_shard_in_use(
    spread_url: str, shard: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = migrations()
    more = (*known, Migration(known[-1].version + 1, "wider", "alter table deliveries add column wide integer"))
    monkeypatch.setattr(migrating, "migrations", lambda: more)
    monkeypatch.setattr(migrating, "LOCK_TIMEOUT_MS", 50)
    monkeypatch.setattr(migrating, "STATEMENT_TIMEOUT_MS", 30_000)
    async with connected(connect(spread_url)) as connection, holding(*shard):
        with pytest.raises(DatabaseBusyError, match="again"):
            await migrating.migrate(connection)
