"""What operators see of a cluster: nodes, shards, where a project is; also while a node does not answer."""

from __future__ import annotations

from latchkey.domain.deployment.standing import Standing
from latchkey.domain.deployment.troubles import troubles
from latchkey.storage.database import connect
from latchkey.usecases.deployment.standing import look_through
from tests.citus.cluster import Cluster

SPREAD = """
create table projects (id text primary key, name text, created_at bigint);
create table feeds (project_id text primary key, position bigint not null);
create table events (project_id text, position bigint, committed_at bigint, primary key (project_id, position));
create table chart_blocks (
    project_id text, cuboid smallint, kind smallint, quantity bigint, primary key (project_id, cuboid, kind)
);
create table accounts (id text primary key);
"""
FILL = """
insert into projects select 'proj_' || i, 'Project ' || i, 0 from generate_series(1, 20) i;
insert into feeds select 'proj_' || i, i * 10 from generate_series(1, 20) i;
insert into events select 'proj_' || i, j, j from generate_series(1, 20) i, generate_series(1, i * 10) j;
insert into chart_blocks select 'proj_' || i, 0, 17, i from generate_series(1, 20) i;
"""


async def looked_at(url: str) -> Standing:
    connection = await connect(url)
    try:
        # As the product's connections are on Citus.
        await connection.execute("set plan_cache_mode = auto")
        async with connection.transaction(readonly=True):
            return await look_through(connection, 100 + 86_400_000)
    finally:
        await connection.close()


async def spread(url: str) -> None:
    connection = await connect(url)
    try:
        await connection.execute(SPREAD)
        await connection.execute("select create_reference_table('projects')")
        for table in ("feeds", "events", "chart_blocks"):
            await connection.execute(f"select create_distributed_table('{table}', 'project_id')")
        await connection.execute(FILL)
    finally:
        await connection.close()


async def test_nodes_shards_and_the_home_of_each_project_are_seen(citus: Cluster, citus_url: str) -> None:
    await spread(citus_url)
    found = await looked_at(citus_url)
    assert found.citus
    assert [(node.role, node.port) for node in found.nodes] == [
        (role, node.port) for role, node in zip(("coordinator", "worker", "worker"), citus.nodes, strict=True)
    ]
    assert all(node.server is not None and node.server.bytes > 0 for node in found.nodes)
    # 8 shards of 3 tables on two workers.
    assert [node.shards for node in found.nodes] == [0, 12, 12]
    places = {table.name: table.place for table in found.tables}
    assert places == {
        "projects": "on every node", "feeds": "by project", "events": "by project",
        "chart_blocks": "by project", "accounts": "coordinator",
    }  # fmt: skip
    hottest = found.projects[0]
    assert (hottest.id, hottest.events, hottest.lately, hottest.customers) == ("proj_20", 200, 101, 20)
    assert hottest.node in {f"{node.host}:{node.port}" for node in citus.workers}
    assert hottest.bytes is not None
    assert hottest.bytes > 0
    assert hottest.neighbours < 19
    assert troubles(found) == []


async def test_a_node_that_does_not_answer_is_named_and_the_rest_is_shown(citus_url: str) -> None:
    """A node that was never started, added to the list by hand: no other test loses a worker."""
    connection = await connect(citus_url)
    try:
        await connection.execute(
            "insert into pg_dist_node (nodeid, groupid, nodename, nodeport, hasmetadata, isactive, metadatasynced)"
            " values (99, 99, '127.0.0.1', 1, false, true, false)"
        )
        found = await looked_at(citus_url)
        (dead,) = [node for node in found.nodes if node.server is None]
        assert (dead.id, dead.port) == (99, 1)
        assert sum(node.server is not None for node in found.nodes) == 3
        (told,) = troubles(found)
        assert told.grave
        assert "127.0.0.1:1 does not answer" in told.words
        assert found.projects == []
    finally:
        await connection.close()
