"""After an error while Citus plans a statement, its session may send calls to no node any more: it is closed."""

import asyncpg
import pytest

from latchkey.database.errors import OutageError
from latchkey.database.pool import Connection, Database
from latchkey.database.sql import query
from latchkey.subjects.projects.usecases import create_project
from tests.http.client import NOW

PROJECT = "proj_of_broken_sessions"
# Citus 14.0 refuses it while it plans the inner part. Then it takes every later statement for a part of this one.
BREAKING = """
with mine as (
    select id from customers c where (select count(*) from events e where e.sequence < c.id) > 1
)
select * from mine join customers c on c.id = mine.id
"""


@pytest.fixture(scope="module", autouse=True)
async def project(spread_url: str) -> None:
    async with Database(spread_url, max_size=1) as database:
        await create_project(database, PROJECT, NOW, project_id=PROJECT)


async def head(connection: Connection) -> int | None:
    """The end of the feed, by the coordinator: in a transaction nothing is sent to the nodes directly."""
    async with connection.transaction():
        position: int | None = await connection.fetchval(query("feed_head"), PROJECT)
        return position


async def session(connection: Connection) -> int:
    number: int = await connection.fetchval("select pg_backend_pid()")
    return number


async def test_a_broken_session_is_closed_when_it_is_released(spread_url: str) -> None:
    async with Database(spread_url, max_size=1) as database:
        async with database.acquire() as connection:
            broken = await session(connection)
            with pytest.raises(asyncpg.FeatureNotSupportedError):
                await connection.fetch(BREAKING)
        async with database.acquire() as connection:
            assert await session(connection) != broken
            assert await head(connection) == 0


async def test_a_broken_session_that_is_still_in_use_answers_nothing_and_is_closed(spread_url: str) -> None:
    async with Database(spread_url, max_size=1) as database:
        async with database.acquire() as connection:
            broken = await session(connection)
            with pytest.raises(asyncpg.FeatureNotSupportedError):
                await connection.fetch(BREAKING)
            with pytest.raises(OutageError, match="no use"):
                await head(connection)
        async with database.acquire() as connection:
            assert await session(connection) != broken
            assert await head(connection) == 0
