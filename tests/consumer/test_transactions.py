"""Transactions of the consumer's two databases: all or nothing, whichever way the statements are sent."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace
from sqlalchemy import func, select
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from latchkey.consumer.rules.record import Entitlement, LocalCopy, Subscription, empty_copy
from latchkey.consumer.storage.copies import Copies
from latchkey.consumer.storage.database import Database, is_collision
from latchkey.consumer.storage.tables import entitlements, progress, subscriptions


def test_the_structs_have_the_columns_of_their_tables_in_order() -> None:
    """SQLite gets the values by their places."""
    assert Subscription.__struct_fields__ == tuple(subscriptions.columns.keys())
    assert ("app_user_id", *Entitlement.__struct_fields__) == tuple(entitlements.columns.keys())


async def test_a_copy_is_read_as_it_was_written(url: str) -> None:
    database = Database(url)
    copies = Copies(database)
    held = Entitlement(entitlement_id="pro", product_id='a "monthly" one', expires_at=2**53, granted_at=0)
    written = Subscription(
        app_user_id="ada",
        email="Ada \\ 'Lovelace' ☃ 🎈",
        is_active=True,
        auto_renew=False,
        entitlements={"pro": {"expires_date": None, "list": [1, 2.5, "\u2028"]}},
        expires_at=-1,
        last_updated=1,
    )
    after = LocalCopy(written, {"pro": held})
    await database.write(lambda connection: copies.save(connection, [(empty_copy("ada"), after)]))
    async with database.reading() as connection:
        assert await copies.find(connection, "ada") == replace(after, subscription=replace(written, revision=1))
    await database.close()


async def test_nothing_stays_of_work_that_failed(url: str) -> None:
    """Neither what SQLAlchemy sent nor what went to the driver directly."""
    database = Database(url)
    copies = Copies(database)

    async def work(connection: AsyncConnection) -> None:
        await connection.execute(database.insert(progress).values(name="a", value="b", updated_at=1))
        await copies.save(connection, [(empty_copy("ada"), LocalCopy(Subscription("ada", last_updated=1)))])
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        await database.write(work)
    async with database.reading() as connection:
        for table in (progress, subscriptions):
            assert await connection.scalar(select(func.count()).select_from(table)) == 0
    await database.close()


async def test_work_that_was_cancelled_leaves_no_transaction_behind(url: str) -> None:
    database = Database(url)
    copies = Copies(database)
    reached = asyncio.Event()

    async def work(connection: AsyncConnection) -> None:
        await copies.save(connection, [(empty_copy("ada"), LocalCopy(Subscription("ada", last_updated=1)))])
        reached.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(database.write(work))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    # The same row: a transaction that was left open would still hold its lock.
    await database.write(
        lambda connection: copies.save(connection, [(empty_copy("ada"), LocalCopy(Subscription("ada", email="new")))])
    )
    async with database.reading() as connection:
        assert await connection.scalar(select(subscriptions.c.email)) == "new"
    await database.close()


async def test_errors_of_the_driver_are_those_of_sqlalchemy(postgres_url: str) -> None:
    """Intake decides by them whether one event is at fault, or the database."""
    database = Database(postgres_url)
    for sql, kind in (
        ("insert into billing_progress values ($1, 'x', 1), ($1, 'y', 1)", IntegrityError),
        ("select 1 / length($1)", DataError),
        ("select $1 from nowhere", DBAPIError),
    ):
        with pytest.raises(kind) as raised:
            async with database.writing() as connection:
                await database.fetch(connection, sql, ("",))
        assert not is_collision(raised.value)
        assert not raised.value.connection_invalidated
    async with database.reading() as connection:
        assert (await database.fetch(connection, "select $1", ("still there",)))[0][0] == "still there"
    await database.close()
