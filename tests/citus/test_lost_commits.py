"""After a failover or a restore, numbers skip ahead on a distributed database too."""

from latchkey.database import database_identity as identity
from latchkey.database.pool import Database
from latchkey.domain.restore import SEQUENCES
from latchkey.subjects.database_restore.usecases import RestoreOptions, after_restore
from tests.citus.moving import prepare
from tests.engine.fixtures import NOON, Core, new_project
from tests.subjects.database_restore.test_usecases import promoted

PROJECTS = ("proj_one", "proj_two")


async def test_numbers_skip_ahead_in_all_projects(citus_url: str) -> None:
    await prepare(citus_url)
    async with Database(citus_url, max_size=3) as database:
        for id in PROJECTS:
            await new_project(database, id, NOON)
            await Core(database, id).act("purchase", "alice", "pro_monthly")
        async with database.acquire() as connection:
            await identity.settle(connection)
            await promoted(connection, waited=False)
    # The first connection of the next process.
    sequences: dict[str, list[object]] = {}
    async with Database(citus_url, max_size=3) as database:
        for buyer in ("bob", "carl"):
            for id in PROJECTS:
                core = Core(database, id, NOON + 1)
                await core.act("purchase", buyer, "pro_monthly")
                sequences.setdefault(buyer, []).extend(event.sequence for event in await core.events(buyer))
            await after_restore(database, RestoreOptions(again=True), NOON, actor="a test")
    first = sequences["bob"][0]
    assert isinstance(first, int)
    assert first % SEQUENCES == 1
    assert sequences == {"bob": [first] * 2, "carl": [first + 2 * SEQUENCES] * 2}
