import asyncio

import asyncpg
import pytest

from latchkey.database import sticky_connections as at_hand
from latchkey.database.pool import Database

WHO = "select pg_backend_pid()"


@pytest.fixture
def small(database_url: str) -> Database:
    """A hot pool of two connections, of which one is kept at hand."""
    return Database(database_url, max_size=4)


async def used(database: Database) -> int:
    async with database.at_hand() as connection:
        pid: int = await connection.fetchval(WHO)
        return pid


async def test_each_pool_has_its_half_of_the_connections_and_its_plans(small: Database) -> None:
    async with small:
        mine = await used(small)
        async with small.acquire() as one, small.acquire() as other:
            assert mine not in {await one.fetchval(WHO), await other.fetchval(WHO)}
            assert await one.fetchval("show enable_seqscan") == "on"
            assert await one.fetchval("show plan_cache_mode") == "auto"
            async with small.transaction(hot=True) as connection:
                assert await connection.fetchval(WHO) == mine
                assert await connection.fetchval("show enable_seqscan") == "off"
                assert await connection.fetchval("show plan_cache_mode") == "force_generic_plan"
        assert await used(small) == mine


async def test_whoever_waits_gets_the_connection(database_url: str) -> None:
    async with Database(database_url, max_size=2) as database:
        async with database.at_hand() as connection:
            mine = await connection.fetchval(WHO)
            waiting = asyncio.create_task(used(database))
            await asyncio.sleep(0)
        assert await waiting == mine


async def test_after_an_error_or_inside_a_transaction_it_goes_back_to_the_pool(small: Database) -> None:
    async with small:
        with pytest.raises(asyncpg.UndefinedTableError):
            async with small.at_hand() as connection:
                await connection.execute("select 1 from no_such_table")
        async with small.at_hand() as connection:
            await connection.execute("begin")
        async with small.at_hand() as connection:
            assert not connection.is_in_transaction()
            assert await connection.fetchval("select 1") == 1


async def test_a_connection_that_the_server_has_closed_is_replaced(small: Database) -> None:
    async with small:
        mine = await used(small)
        # Returns when the server process has ended.
        assert await small.pool.fetchval("select pg_terminate_backend($1::integer, 60000::bigint)", mine)
        with_new = mine
        while with_new == mine:
            try:
                with_new = await used(small)
            except (asyncpg.PostgresConnectionError, asyncpg.AdminShutdownError):
                # The event loop has not seen the end of the connection yet.
                await asyncio.sleep(0)


async def test_a_connection_that_was_idle_for_long_is_replaced(
    small: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with small:
        mine = await used(small)
        monkeypatch.setattr(at_hand, "IDLE_SECONDS", 0.0)
        assert await used(small) != mine
