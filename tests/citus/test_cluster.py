"""The cluster that other tests here use: real nodes, shards on both workers."""

from __future__ import annotations

import asyncpg

from tests.citus.cluster import WORKERS, Cluster, given


async def test_a_database_of_the_cluster_spreads_rows_over_its_workers(citus: Cluster, citus_url: str) -> None:
    connection = await asyncpg.connect(citus_url)
    try:
        await connection.execute("create table things (project_id text, id bigint, primary key (project_id, id))")
        await connection.execute("select create_distributed_table('things', 'project_id')")
        await connection.execute("insert into things select 'p' || i, i from generate_series(1, 100) i")
        assert await connection.fetchval("select count(*) from things") == 100
        placed = await connection.fetch("select distinct nodeport from citus_shards")
    finally:
        await connection.close()
    assert len(placed) == WORKERS
    assert {row["nodeport"] for row in placed} <= {node.port for node in citus.workers}


async def test_databases_of_the_cluster_are_apart(citus: Cluster, citus_url: str) -> None:
    async with citus.database() as other:
        assert other != citus_url
        connection = await asyncpg.connect(other)
        try:
            assert await connection.fetchval("select count(*) from pg_dist_node") == WORKERS + 1
            assert await connection.fetchval("select count(*) from citus_tables") == 0
        finally:
            await connection.close()


async def test_a_running_cluster_is_known_by_its_address(citus: Cluster, citus_url: str) -> None:
    assert set((await given(citus_url)).nodes) == set(citus.nodes)
