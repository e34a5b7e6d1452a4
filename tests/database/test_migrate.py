import asyncio

import asyncpg
import pytest

from latchkey.database import migrate as migrations
from latchkey.database.errors import DatabaseBusyError, SchemaError
from latchkey.database.migrate import Migration, applied, migrate, pending, require_current
from latchkey.database.migrate import migrations as known_migrations
from latchkey.database.pool import connect


async def test_replaying_twice_changes_nothing(empty_database_url: str) -> None:
    connection = await connect(empty_database_url)
    told: list[Migration] = []
    assert await migrate(connection, told=told.append) == list(known_migrations()) == told
    assert await migrate(connection) == []
    assert await pending(connection) == []
    await require_current(connection)
    await connection.close()


async def test_two_processes_at_once_migrate_once(empty_database_url: str) -> None:
    connections = [await connect(empty_database_url) for _ in range(4)]
    done = await asyncio.gather(*(migrate(connection) for connection in connections))
    assert sorted(map(len, done)) == [0, 0, 0, len(known_migrations())]
    for connection in connections:
        await connection.close()


async def test_an_empty_database_is_not_migrated(empty_database_url: str) -> None:
    connection = await connect(empty_database_url)
    with pytest.raises(SchemaError, match="latchkey migrate"):
        await require_current(connection)
    await connection.close()


async def test_a_migration_that_fails_leaves_nothing_of_itself(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = (Migration(1, "good", "create table a (x int)"), Migration(2, "bad", "create table b (x int); select 1/0"))
    monkeypatch.setattr(migrations, "migrations", lambda: broken)
    connection = await connect(empty_database_url)
    with pytest.raises(asyncpg.DivisionByZeroError):
        await migrate(connection)
    assert await applied(connection) == 1
    assert await connection.fetchval("select to_regclass('b')") is None
    await connection.close()


async def test_a_migration_gives_up_on_a_table_in_use_rather_than_stopping_everybody(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = known_migrations()
    more = (*known, Migration(known[-1].version + 1, "wider", "alter table projects add column wide int"))
    monkeypatch.setattr(migrations, "migrations", lambda: more)
    monkeypatch.setattr(migrations, "LOCK_TIMEOUT_MS", 50)
    reader, writer = await connect(database_url), await connect(database_url)
    async with reader.transaction():
        await reader.execute("select * from projects")
        with pytest.raises(DatabaseBusyError, match="again"):
            await migrate(writer)
    assert [migration.name for migration in await migrate(writer)] == ["wider"]
    await reader.close()
    await writer.close()
