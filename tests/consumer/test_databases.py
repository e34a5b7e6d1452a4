"""The consumer's two databases: transactions are all or nothing, and of several hosts the primary is used.

tests/failover has real failovers.
"""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace
from sqlalchemy import func, select, text
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from latchkey.consumer.rules.record import Entitlement, LocalCopy, Subscription, empty_copy
from latchkey.consumer.storage.consumer_database import ConsumerDatabase, PrimaryHost, checked_url, is_collision
from latchkey.consumer.storage.copies import Copies
from latchkey.consumer.storage.copy_tables import progress, subscriptions
from latchkey.database_address import parse
from tests.consumer.world import both_databases
from tests.database.cable import cable


@both_databases
async def test_a_copy_is_read_as_it_was_written(url: str) -> None:
    database = ConsumerDatabase(url)
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


@both_databases
async def test_a_failed_transaction_changes_nothing(url: str) -> None:
    """Neither what SQLAlchemy sent nor what went to the driver directly."""
    database = ConsumerDatabase(url)
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


@both_databases
async def test_work_that_was_cancelled_leaves_no_transaction_behind(url: str) -> None:
    database = ConsumerDatabase(url)
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
    database = ConsumerDatabase(postgres_url)
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


async def test_a_transaction_that_is_cancelled_locks_nobody_out(tmp_path: Path) -> None:
    database = ConsumerDatabase(f"sqlite:///{tmp_path / 'consumer.db'}")

    async def write() -> None:
        async with database.writing() as connection:
            await connection.execute(text("create table if not exists t (a int)"))

    async def cancelled(after: float) -> None:
        writing = asyncio.create_task(write())
        await asyncio.sleep(after)
        writing.cancel()
        with suppress(asyncio.CancelledError):
            await writing

    await write()
    for tenths in range(40):
        await asyncio.gather(*(cancelled(tenths / 10_000) for _ in range(6)))
        await write()
    await database.close()


async def ask(database: ConsumerDatabase) -> object:
    async with database.writing() as connection:
        [row] = await database.fetch(connection, "select $1::integer", (7,))
        return row[0]


async def test_a_host_that_hangs_or_is_gone_does_not_keep_it_from_the_other(postgres_url: str) -> None:
    async with cable(postgres_url) as dead, cable(postgres_url) as alive:
        dead.hold()
        url = f"postgresql://postgres@127.0.0.1:{dead.port},127.0.0.1:1,127.0.0.1:{alive.port}/{dead.database}"
        database = ConsumerDatabase(url)
        try:
            assert await ask(database) == 7
            alive.cut()
            assert await database.write(lambda connection: database.fetch(connection, "select $1::integer", (8,)))
        finally:
            await database.close()


async def test_an_old_primary_is_never_used(postgres_url: str) -> None:
    class Connection:
        def __init__(self, timeline: int) -> None:
            self.timeline = timeline
            self.ended = False

        async def fetchval(self, _: str) -> int:
            return self.timeline

        def terminate(self) -> None:
            self.ended = True

    timelines, made = {"postgresql://a/x": 2, "postgresql://b/x": 1}, list[Connection]()

    async def connect(url: str, **_: object) -> Connection:
        if url not in timelines:
            raise ConnectionRefusedError
        made.append(Connection(timelines[url]))
        return made[-1]

    primary = PrimaryHost(parse("postgresql://b,a/x"), connect)
    assert (await primary.connect({})).timeline == 2
    del timelines["postgresql://a/x"]
    with pytest.raises(ConnectionError, match="is the primary"):
        await primary.connect({})
    timelines["postgresql://b/x"] = 3
    assert (await primary.connect({})).timeline == 3
    assert [connection.timeline for connection in made if not connection.ended] == [2, 3]


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("postgresql://bob:hunter2@a,,b/x", "empty"),
        ("postgresql://bob:hunter2@a,b/x?target_session_attrs=standby", "read-write"),
        ("mysql://x/y", "sqlite"),
        ("sqlite://", "SQLite"),
        ("sqlite:///:memory:", "SQLite"),
    ],
)
def test_an_address_that_cannot_work_is_refused_without_its_password(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as refused:
        checked_url(url)
    assert "hunter2" not in str(refused.value)
