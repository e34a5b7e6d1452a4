"""What operators see of a cluster: nodes, shards, where a project is; also while a node does not answer."""

from latchkey.database.distribution.statements import TABLES
from latchkey.database.pool import Database, connect
from latchkey.observability import storage as watching
from latchkey.process.doctor_deployment import deployment
from latchkey.subjects.deployment.rules import DeploymentReport, troubles
from latchkey.subjects.deployment.usecases import look, look_through
from tests.citus.cluster import Cluster
from tests.citus.moving import SHARDS, prepare
from tests.connections import connected
from tests.engine.fixtures import NOON, Core, new_project
from tests.subjects.segments.test_facets import walk

PLACES = {"reference": "on every node", "by project": "by project", "local": "coordinator"}


async def looked_at(url: str) -> DeploymentReport:
    async with connected(connect(url)) as connection:
        # As the product's connections are on Citus.
        await connection.execute("set plan_cache_mode = auto")
        async with connection.transaction(readonly=True):
            return await look_through(connection, 100 + 86_400_000)


async def test_a_cluster_without_a_project_is_looked_at_and_measured(citus: Cluster) -> None:
    async with citus.database() as url:
        await prepare(url)
        async with Database(url, max_size=1) as database:
            found = await look(database, NOON)
            assert found.lists is not None
            assert (found.projects, found.lists.behind) == ([], 0)
            assert (await watching.measure(database, NOON, 100)).customer_lists.behind == 0


async def test_nodes_shards_and_the_home_of_each_project_are_seen(citus: Cluster, spread_url: str) -> None:
    async with Database(spread_url, max_size=3) as database:
        await new_project(database, "proj_seen", NOON)
        core = Core(database, "proj_seen")
        for number in range(3):
            await core.act("purchase", f"user{number}", "pro_monthly")
        await walk(core)
        found = await look(database, core.time)
    assert found.citus
    assert [(node.role, node.port) for node in found.nodes] == [
        (role, node.port) for role, node in zip(("coordinator", "worker", "worker"), citus.nodes, strict=True)
    ]
    assert all(node.server is not None and node.server.bytes > 0 for node in found.nodes)
    home, *workers = (node.shards for node in found.nodes)
    assert home == 0
    assert all(workers)
    assert sum(workers) % SHARDS == 0
    assert {one.name: one.place for one in found.tables if one.name in TABLES} == {
        name: PLACES[place] for name, place in TABLES.items()
    }
    (seen,) = [one for one in found.projects if one.id == core.project_id]
    assert (seen.events, seen.lately, seen.customers) == (3, 3, 3)
    assert seen.node in {f"{node.host}:{node.port}" for node in citus.workers}
    assert seen.bytes is not None
    assert seen.bytes > 0
    assert found.lists is not None
    assert (found.lists.behind, found.lists.customers) == (0, 0)
    assert troubles(found) == []

    told = await deployment(spread_url, core.time)
    assert {one.mark for one in told} == {"good"}, told
    assert {"nodes", "projects", "customer lists"} <= {one.about for one in told}


async def test_a_node_that_does_not_answer_is_named_and_the_rest_is_shown(citus_url: str) -> None:
    """A node that was never started, added to the list by hand: no other test loses a worker."""
    async with connected(connect(citus_url)) as connection:
        await connection.execute(
            "insert into pg_dist_node (nodeid, groupid, nodename, nodeport, hasmetadata, isactive, metadatasynced)"
            " values (99, 99, '127.0.0.1', 1, false, true, false)"
        )
        found = await looked_at(citus_url)
        (dead,) = [node for node in found.nodes if node.server is None]
        assert (dead.id, dead.port) == (99, 1)
        assert sum(node.server is not None for node in found.nodes) == 3
        (told,) = troubles(found)
        assert told.mark == "bad"
        assert "127.0.0.1:1 does not answer" in told.words
        assert found.projects == []
