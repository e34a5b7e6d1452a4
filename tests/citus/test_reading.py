"""Reads go to the node of their project, without the coordinator in between."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from latchkey.database.distribution import directory
from latchkey.database.distribution.functions import is_asked_of_nodes
from latchkey.database.distribution.nodes import Nodes
from latchkey.database.pool import Database
from latchkey.database.sql import all_queries, query
from latchkey.domain.customers.customer import newcomer
from latchkey.engine.admission import Caller
from latchkey.engine.reads import Reader, ReadResult
from latchkey.engine.storage import records as customers
from latchkey.engine.storage.catalog.catalogs import Catalogs
from latchkey.subjects.api_keys.usecases import create_secret_key, hash_of, revoke_key
from latchkey.subjects.projects.usecases import create_project
from tests.citus.moving import MOVE, elsewhere
from tests.http.client import NOW
from tests.patience import until

PROJECT = "proj_1"


@pytest.fixture(scope="module", autouse=True)
async def project(spread_url: str) -> None:
    async with Database(spread_url, max_size=1) as database:
        await create_project(database, PROJECT, NOW, project_id=PROJECT)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Database]:
    async with Database(url, max_size=2) as database:
        yield database


async def head(database: Database) -> int | None:
    position: int | None = await database.pool.fetchval(query("feed_head"), PROJECT)
    # The driver tells its listeners in the next turn of the loop.
    await asyncio.sleep(0)
    return position


def links_of(database: Database) -> Nodes:
    assert database._cluster is not None
    return database._cluster.links


def links(database: Database) -> list[Any]:
    return [link for idle in links_of(database)._idle.values() for link in idle]


async def linked(database: Database) -> Any:
    """The connection that the next read will use."""

    async def is_there() -> bool:
        await head(database)
        return bool(links(database)) and not links_of(database)._making

    await until(is_there, "no connection to a node was made")
    return links(database)[-1]


async def test_a_read_is_sent_to_the_node_of_its_project(spread_url: str) -> None:
    async with opened(spread_url) as database:
        link = await linked(database)
        here, _ = await elsewhere(spread_url, PROJECT)
        sent: list[str] = []
        link.add_query_logger(lambda record: sent.append(record.query))

        assert await head(database) == 0
        assert [text for text in sent if "at_shard.feed_" in text]
        assert (link._addr[0], link._addr[1]) == (here["host"], here["port"])
        # What is read in a transaction is read where the transaction is.
        sent.clear()
        async with database.transaction() as connection:
            assert await connection.fetchval(query("feed_head"), PROJECT) == 0
            await asyncio.sleep(0)
        assert sent == []


async def test_what_a_node_cannot_answer_is_asked_of_the_coordinator(spread_url: str) -> None:
    async with opened(spread_url) as database:
        link = await linked(database)
        link.terminate()
        assert await head(database) == 0

        link = await linked(database)
        # As during the commit of a move: the rows may be newer on the other node.
        await link.execute("begin; select pg_advisory_xact_lock(1); prepare transaction 'moving'")
        try:
            errors: list[BaseException | None] = []
            link.add_query_logger(lambda record: errors.append(record.exception))
            assert await head(database) == 0
            assert [type(error) for error in errors] == [asyncpg.SerializationError]
        finally:
            await link.execute("rollback prepared 'moving'")
        assert await head(database) == 0


async def test_a_project_is_read_where_it_has_gone(spread_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # However long the move takes.
    monkeypatch.setattr(directory, "_CURRENT", 3600.0)
    async with opened(spread_url) as database:
        link = await linked(database)
        _, there = await elsewhere(spread_url, PROJECT)
        connection = await asyncpg.connect(spread_url)
        await connection.execute(MOVE.format(project=PROJECT, **there))
        await connection.execute("update feeds set position = 7 where project_id = $1", PROJECT)
        await connection.close()

        # The process still asks the old node, which has the old rows for a while. It refuses.
        assert links(database)[-1] is link
        errors: list[BaseException | None] = []
        link.add_query_logger(lambda record: errors.append(record.exception))
        assert await head(database) == 7
        assert [type(error) for error in errors] == [asyncpg.SerializationError]
        await database.pool.execute("update feeds set position = 0 where project_id = $1", PROJECT)


async def test_a_read_with_a_known_key_begins_while_its_request_is_counted(spread_url: str) -> None:
    async with opened(spread_url) as database, opened(spread_url) as other:
        # So few requests are counted one by one.
        key = await create_secret_key(other, PROJECT, "reads", NOW, rate_limit=100)
        key_hash = hash_of(key.plaintext)
        async with other.transaction() as connection:
            await customers.create(connection, [newcomer(PROJECT, id, NOW) for id in ("ann", "bob")])
        reader = Reader(database, Catalogs())

        async def answered(*ids: str | None) -> list[ReadResult]:
            return list(await asyncio.gather(*(reader.admit(key_hash, id) for id in ids)))

        first = await answered("nobody", "ann", None, "bob", "ann")
        link = await linked(database)
        sent: list[str] = []
        link.add_query_logger(lambda record: sent.append(record.query))

        async def is_sent() -> bool:
            return any("at_shard.read_admitted_" in text for text in sent)

        async with other.transaction() as connection:
            await connection.execute("lock table rate_windows in access exclusive mode")
            reading = asyncio.create_task(answered("nobody", "ann", None, "bob", "ann"))
            await until(is_sent, "the read waited for the count")
            assert not reading.done()
        again = await reading
        for answers in (first, again):
            assert [answer.row is not None for answer in answers] == [False, True, False, True, True]
            assert answers[1].row == answers[4].row != answers[3].row
            assert all(isinstance(answer.verdict, Caller) for answer in answers)

        # What was read for a key that is not valid any more is not given to anybody.
        await revoke_key(other, PROJECT, key.key.id, NOW)
        sent.clear()
        assert [(answer.verdict, answer.row) for answer in await answered("ann")] == [(None, None)]
        await until(is_sent, "the key was not known")


async def test_each_node_is_asked_once_what_is_due_in_all_of_its_shards(spread_url: str) -> None:
    async with opened(spread_url) as database:
        own = [f"proj_{number}" for number in range(2, 9)]
        for project_id in own:
            await create_project(database, project_id, NOW, project_id=project_id)
        await database.pool.execute("update customer_keys set last = 1 where project_id = any($1)", own)
        keys = await database.pool.fetchval("select sum(last)::bigint from customer_keys")
        assert keys >= len(own)

        async def counted(connection: Any) -> int:
            row = await connection.fetchrow(query("look_out_in_projects"))
            return int(row["newest"])

        async def both_linked() -> bool:
            async with database.acquire() as connection:
                await counted(connection)
            return len(links(database)) >= 2

        await until(both_linked, "no connections to the nodes were made")
        sent: list[str] = []
        for link in links(database):
            link.add_query_logger(lambda record: sent.append(record.query) if "at_node." in record.query else None)
        async with database.acquire() as connection:
            # In a transaction each shard is asked, through the coordinator.
            async with connection.transaction():
                assert await counted(connection) == keys
            assert await counted(connection) == keys
            await asyncio.sleep(0)
            assert len(sent) == 2
            assert all("at_node.look_out_in_projects" in text for text in sent)
            # Every one of these statements can be asked so.
            for name in filter(is_asked_of_nodes, all_queries()):
                amount = len((await connection.prepare(query(name))).get_parameters())
                sent.clear()
                await connection.fetch(query(name), *[None] * amount)
                await asyncio.sleep(0)
                assert len(sent) == 2, name
