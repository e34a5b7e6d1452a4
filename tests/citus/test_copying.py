"""A whole database is copied into a cluster, and back: nothing is lost, nothing is doubled, numbers go on."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import pytest
from rich.console import Console

from latchkey.database.distribution import database_copy as fence
from latchkey.database.distribution.database_copy import both, copy_all
from latchkey.database.embedded.postgres import EmbeddedServer
from latchkey.database.errors import DistributionError
from latchkey.database.pool import Database, connect
from latchkey.process.migration import run as run_migrations
from latchkey.subjects.demo.usecases.project import Demo, ensure_demo
from latchkey.subjects.segments.usecases import projector as lists
from latchkey.subjects.webhooks.storage import lanes as parts
from tests.citus.moving import SHARDS
from tests.citus.test_distributing import feed, live
from tests.connections import migrated
from tests.http.client import NOW

UNSAFE_BUT_FAST = {"fsync": "off", "full_page_writes": "off", "autovacuum": "off"}


class Pair(NamedTuple):
    source: Any
    target: Any
    url: str
    new_url: str


@pytest.fixture(scope="module")
async def plain(short_folder: Path) -> AsyncIterator[EmbeddedServer]:
    server = EmbeddedServer(short_folder / "plain", settings=UNSAFE_BUT_FAST)
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def pair(citus_url: str, plain: EmbeddedServer) -> AsyncIterator[Pair]:
    """A plain database with rows, and an empty distributed one."""
    administration = await connect(plain.url("postgres"))
    name = f"plain_{citus_url.rpartition('_')[2]}"
    await administration.execute(f"create database {name}")
    url = plain.url(name)
    await migrated(url)
    async with Database(url) as database:
        demo = await ensure_demo(database, NOW, secret_key=None, public_key=None)
        await live(database, demo, range(3))
        await parts.open_part(database, 1, NOW)
        await parts.open_part(database, 2, NOW)
        await live(database, demo, range(3, 5))
        await parts.drop(database, 1, NOW)
        await roll(database, demo)
    await run_migrations(citus_url, False, False, Console(quiet=True), distributed=True, shards=SHARDS)
    async with both(url, citus_url) as (source, target):
        yield Pair(source, target, url, citus_url)
    await administration.execute(f"drop database {name} with (force)")
    await administration.close()


async def roll(database: Database, demo: Demo) -> None:
    assert await lists.catch_up(database, demo.project_id, NOW)


def silent(_: str) -> None:
    pass


async def test_a_database_goes_into_a_cluster_and_back_and_numbers_go_on(pair: Pair) -> None:
    source, target, url, new_url = pair
    newest = await source.fetchval("select max(id) from customers")
    # The newest customer is deleted: its key must not be given again.
    await source.execute("delete from aliases where customer_id = $1", newest)
    await source.execute("delete from customers where id = $1", newest)
    copied = await copy_all(source, target, silent)
    assert copied.rows > 50
    assert copied.bytes > 5_000
    late = await connect(url)
    with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
        await late.execute("update projects set name = 'written to the old one'")
    await late.close()
    assert await target.fetchval("select count(distinct partition) from events") == 2
    assert await target.fetchval("select dropped_at from partitions where partition = 1") == NOW

    async with Database(new_url) as database:
        demo = await ensure_demo(database, NOW, secret_key=None, public_key=None)
        told = await feed(database, demo)
        await live(database, demo, range(20, 22))
        await roll(database, demo)
        more = await feed(database, demo)
    assert more[: len(told)] == told
    assert [position for position, *_ in more] == list(range(1, len(more) + 1))
    assert await target.fetchval("select min(id) from customers where app_user_id in ('user 20', 'user 21')") > newest

    with pytest.raises(DistributionError, match="--replace"):
        await copy_all(target, source, silent)
    await copy_all(target, source, silent, replace=True)
    async with Database(url) as database:
        assert await feed(database, demo) == more
        await live(database, demo, range(30, 32))
        await roll(database, demo)
        assert len(await feed(database, demo)) > len(more)


async def test_a_dry_run_copies_and_compares_while_others_write_and_leaves_nothing(pair: Pair) -> None:
    source, target, url, _ = pair
    told: list[str] = []

    copied = await copy_all(source, target, told.append, dry_run=True)

    assert copied.rows > 50
    assert told[-1] == "All rows are the same in both databases."
    assert await target.fetchval("select count(*) from customers") == 0
    assert await target.fetchval("select count(*) from partitions") == 1
    assert not await fence.is_up(source)
    async with Database(url) as database:
        await live(database, await ensure_demo(database, NOW, secret_key=None, public_key=None), range(5, 6))


async def test_if_the_copy_differs_everything_is_as_before(pair: Pair) -> None:
    source, target, url, _ = pair
    for statement in (
        "create function spoil() returns trigger language plpgsql as $$ begin new.used_at := 1; return new; end $$",
        "create trigger spoil before insert on key_uses for each row execute function spoil()",
        "alter table key_uses enable always trigger spoil",
    ):
        await target.execute(statement)
    await source.execute("insert into key_uses (key_id, used_at) values ('key_x', 0)")

    with pytest.raises(DistributionError, match=r"key_uses is not the same: 2 rows here, 2 .* with other values"):
        await copy_all(source, target, silent)

    assert not await fence.is_up(source)
    assert await target.fetchval("select count(*) from customers") == 0
    async with Database(url) as database:
        await live(database, await ensure_demo(database, NOW, secret_key=None, public_key=None), range(5, 6))


async def test_only_between_a_plain_database_and_a_distributed_one(pair: Pair) -> None:
    async with both(pair.url, pair.url) as (source, target):
        with pytest.raises(DistributionError, match="One of the two databases must be distributed"):
            await copy_all(source, target, silent)
