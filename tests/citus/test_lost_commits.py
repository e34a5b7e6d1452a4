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
    async with Database(citus_url, max_size=3) as database:
        for floor in (2, 4):
            for id in PROJECTS:
                core = Core(database, id, NOON + floor)
                await core.act("purchase", f"bob{floor}", "pro_monthly")
                assert [event.sequence for event in await core.events(f"bob{floor}")] == [floor * SEQUENCES + 1]
            await after_restore(database, RestoreOptions(again=True), NOON, actor="a test")
