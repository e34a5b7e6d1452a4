"""A collision with another transaction is one error, whatever the driver raises."""

import asyncio

import asyncpg
import pytest

from latchkey.database import transient_errors as collisions
from latchkey.database.errors import CollisionError
from latchkey.database.pool import Connection, Database


async def add(connection: Connection, id: str) -> None:
    await connection.execute("insert into accounts (id, email, created_at) values ($1, $1, 0)", id)


async def test_a_row_that_another_transaction_made_first_is_a_collision(database: Database) -> None:
    async with collisions.hot_transaction(database) as connection:
        await add(connection, "p")
    with pytest.raises(CollisionError):
        async with collisions.hot_transaction(database) as connection:
            await add(connection, "p")


async def test_two_transactions_that_wait_for_each_other_collide(database: Database) -> None:
    async with database.transaction() as connection:
        await add(connection, "one")
        await add(connection, "two")
    both_hold_one = asyncio.Barrier(2)

    async def rename(*ids: str) -> None:
        async with collisions.hot_transaction(database) as connection:
            for id in ids:
                await connection.execute("update accounts set name = 'Q' where id = $1", id)
                if id == ids[0]:
                    await both_hold_one.wait()

    ended = await asyncio.gather(rename("one", "two"), rename("two", "one"), return_exceptions=True)
    assert [type(one) for one in ended if one is not None] == [CollisionError]


async def test_every_other_error_keeps_its_name(database: Database) -> None:
    with pytest.raises(asyncpg.DivisionByZeroError):
        async with collisions.hot_transaction(database) as connection:
            await connection.execute("select 1 / 0")
    with pytest.raises(ValueError, match="ours"):
        async with collisions.hot_transaction(database):
            raise ValueError("ours")
