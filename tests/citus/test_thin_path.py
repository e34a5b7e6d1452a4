"""From an empty database to a delivered webhook, on a real cluster."""

import asyncpg
import pytest
from rich.console import Console

from latchkey.database.distribution.distribute import require_cluster
from latchkey.database.errors import DistributionError, SchemaError
from latchkey.database.pool import Database, connect
from latchkey.process.migration import run
from latchkey.subjects.demo.usecases.project import ensure_demo
from tests.connections import connected
from tests.http.client import NOW

SHARDS = 4


async def test_an_empty_database_is_distributed_twice_with_the_same_result(citus_url: str) -> None:
    console = Console(record=True, width=200)
    await run(citus_url, False, False, console, distributed=True, shards=SHARDS)
    first = await shape(citus_url)
    # Without the option as well: a later migration keeps it distributed.
    await run(citus_url, False, False, console)

    assert await shape(citus_url) == first
    assert first["customers"] == ("h", SHARDS)
    assert first["projects"] == ("n", 1)
    assert "customers: by project, 0 rows" in console.export_text()
    async with Database(citus_url) as database:
        demo = await ensure_demo(database, NOW, secret_key=None, public_key=None)
    assert demo.project_id


async def test_a_process_uses_only_functions_of_its_own_statements(citus_url: str) -> None:
    await run(citus_url, False, False, Console(quiet=True), distributed=True, shards=SHARDS)
    connection = await connect(citus_url)
    # As a release would that says it in other words.
    await connection.execute("update at_project.statements set digest = 'other' where name = 'read_leased'")

    with pytest.raises(SchemaError, match="read_leased"):
        await Database(citus_url).open()
    await connection.close()


async def shape(url: str) -> dict[str, tuple[str, int]]:
    connection = await connect(url)
    rows = await connection.fetch(
        "select c.relname::text as name, p.partmethod::text, count(*) as shards from pg_dist_partition p"
        " join pg_class c on c.oid = p.logicalrelid join pg_dist_shard s using (logicalrelid)"
        " where p.repmodel <> 's' or p.partmethod <> 'n' group by 1, 2"
    )
    await connection.close()
    return {row["name"]: (row["partmethod"], row["shards"]) for row in rows}


async def test_a_cluster_without_workers_is_refused(citus_url: str) -> None:
    async with connected(asyncpg.connect(citus_url)) as connection:
        await connection.execute("select citus_remove_node(nodename, nodeport) from pg_dist_node where groupid <> 0")
        with pytest.raises(DistributionError, match="no workers"):
            await require_cluster(connection)
