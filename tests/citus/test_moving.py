"""A project is moved to a node of its own while purchases and deliveries go on: nothing is lost, nothing is doubled."""

from pathlib import Path

from tests.citus.moving import ISOLATE, MOVE, compare, elsewhere, loaded, prepare, projects_beside


async def test_a_project_moves_to_another_node_under_load_without_a_lost_or_doubled_event(
    citus_url: str, tmp_path: Path
) -> None:
    await prepare(citus_url)
    projects = await projects_beside(citus_url, 3)
    moving, beside, _ = projects
    async with loaded(citus_url, tmp_path, projects) as load:
        await load.until_bought(20)
        before, there = await elsewhere(citus_url, moving)
        await load.during(citus_url, ISOLATE.format(project=moving))
        isolated, _ = await elsewhere(citus_url, moving)
        await load.during(citus_url, MOVE.format(project=moving, **there))
        await load.until_bought(20)
    after, _ = await elsewhere(citus_url, moving)
    stayed, _ = await elsewhere(citus_url, beside)
    assert isolated["shard"] != before["shard"]
    assert (after["host"], after["port"]) == (there["host"], there["port"])
    # Who shared its shard stays where it was.
    assert (stayed["host"], stayed["port"]) == (before["host"], before["port"])
    await compare(citus_url, load)
