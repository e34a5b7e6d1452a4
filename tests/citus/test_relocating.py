"""A plain database is taken over into a cluster while the service runs on it: nothing is lost, nothing is doubled."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import asyncpg
import pytest
from rich.console import Console

from latchkey.cli.migration import run as run_migrations
from latchkey.storage.database import Database, connect
from latchkey.storage.deliveries import parts
from latchkey.storage.embedded.server import EmbeddedServer
from latchkey.storage.errors import NotRelocatableError, StillFilledError
from latchkey.storage.migrate import migrate
from latchkey.storage.relocating import fence, slot
from latchkey.storage.relocating.connections import both
from latchkey.storage.relocating.following import Following, begin_or_resume, cancel, opened
from latchkey.storage.relocating.switching import clean_up, copy_back, switch
from latchkey.usecases.customer_lists import roller as lists
from latchkey.usecases.sandbox.demo import Demo, ensure_demo
from tests.api.client import NOW
from tests.citus.relocating import PLAIN, SHARDS, relocate, staged
from tests.citus.test_distributing import feed, live


@pytest.mark.processes
async def test_a_running_service_moves_to_a_cluster_and_loses_nothing(citus_url: str, short_folder: Path) -> None:
    async with staged(short_folder / "relocating", citus_url) as scene:
        await relocate(scene, 20)
        assert await scene.has_lost_nothing() > 40


class Pair(NamedTuple):
    source: Any
    target: Any
    url: str
    new_url: str


@pytest.fixture(scope="module")
async def plain(short_folder: Path) -> AsyncIterator[EmbeddedServer]:
    server = EmbeddedServer(short_folder / "plain", settings=PLAIN)
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
    connection = await connect(url)
    await migrate(connection)
    await connection.close()
    async with Database(url) as database:
        demo = await ensure_demo(database, NOW, secret_key=None, public_key=None)
        await live(database, demo, range(3))
        await roll(database, demo)
    await run_migrations(citus_url, False, False, Console(quiet=True), distributed=True, shards=SHARDS)
    async with both(url, citus_url) as (source, target):
        yield Pair(source, target, url, citus_url)
    await administration.execute(f"drop database {name} with (force)")
    await administration.close()


async def roll(database: Database, demo: Demo) -> None:
    """Customer lists."""
    assert await lists.catch_up(database, demo.project_id, NOW)


def silent(_: str) -> None:
    pass


async def begun(pair: Pair) -> Following:
    following = await opened(pair.source, pair.target, pair.url)
    await begin_or_resume(following, silent)
    return following


# Random letters: PostgreSQL keeps what does not get short by compressing outside of the row.
_LONG = "(select string_agg(md5(random()::text), '') from generate_series(1, 1000))"


async def test_changes_of_every_kind_are_followed_also_long_values_new_keys_and_partitions(
    pair: Pair,
) -> None:
    source, target, url, _ = pair
    following = await begun(pair)
    async with Database(url) as database:
        demo = await ensure_demo(database, NOW, secret_key=None, public_key=None)
        await live(database, demo, range(3, 6))
        # A long value that later updates leave as it is: of a copy on every node, and of a row by project.
        await source.execute(f"update products set display_name = {_LONG}")
        await following.step()
        await source.execute("update products set price_micros = price_micros + 1")
        await source.execute("update aliases set app_user_id = 'renamed' where app_user_id = 'user 2'")
        await source.execute("delete from aliases where app_user_id = 'renamed'")
        await parts.open_part(database, 1, NOW)
        await live(database, demo, range(6, 8))
        await following.step()
        await parts.open_part(database, 2, NOW)
        await live(database, demo, range(8, 10))
        await parts.drop(database, 1, NOW)
        await live(database, demo, range(10, 12))
        await roll(database, demo)
    while await following.step():
        pass
    sums = await following.compare(silent)
    assert all(sums[table].rows for table in ("chart_periods", "customer_facets"))
    assert await target.fetchval("select length(min(display_name)) from products") == 32_000
    assert await target.fetchval("select count(distinct part) from events") == 3
    assert await target.fetchval("select dropped_at from parts where part = 1") == NOW


async def test_a_difference_is_found_and_the_old_database_goes_on(pair: Pair) -> None:
    source, target, url, _ = pair
    following = await begun(pair)
    await target.execute("update aliases set app_user_id = 'somebody else' where app_user_id = 'user 1'")
    with pytest.raises(NotRelocatableError, match=r"aliases is not the same: 3 rows .* 3 .* other values"):
        await following.compare(silent)
    with pytest.raises(NotRelocatableError, match="aliases"):
        await switch(following, silent, compare=False)
    assert not await fence.is_up(source)
    async with Database(url) as database:
        await live(database, await ensure_demo(database, NOW, secret_key=None, public_key=None), range(3, 4))
    with pytest.raises(StillFilledError, match="being filled"):
        await Database(pair.new_url).open()

    await cancel(source, target)
    assert await target.fetchval("select count(*) from customers") == 0
    assert not await slot.exists(source)


async def test_what_was_interrupted_goes_on_and_nothing_is_applied_twice(pair: Pair) -> None:
    source, target, url, _ = pair
    first = await begun(pair)
    async with Database(url) as database:
        demo = await ensure_demo(database, NOW, secret_key=None, public_key=None)
        await live(database, demo, range(3, 5))
        # Applied and noted, but the server was not told: after a crash the same changes come again.
        with mock.patch.object(slot, "advance", side_effect=Interrupted), pytest.raises(Interrupted):
            await first.step()
        await live(database, demo, range(5, 7))
        again = await opened(source, target, url)
        await begin_or_resume(again, silent)
        while await again.step():
            pass
        await again.compare(silent)

        # Somebody pulls the plug while nobody can write. The switch can be made again.
        with (
            mock.patch.object(fence, "take_down"),
            mock.patch.object(again, "drain", side_effect=Interrupted),
            pytest.raises(Interrupted),
        ):
            await switch(again, silent)
        assert await fence.is_up(source)
    done = await switch(again, silent)
    assert done.projects == 1


async def test_after_the_switch_numbers_go_on_and_there_is_a_way_back(pair: Pair) -> None:
    source, target, url, _ = pair
    following = await begun(pair)
    newest = await source.fetchval("select max(id) from customers")
    # The newest customer is deleted: its key must not be given again.
    await source.execute("delete from aliases where customer_id = $1", newest)
    await source.execute("delete from customers where id = $1", newest)
    await switch(following, silent)
    await clean_up(following)
    late = await connect(url)
    with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
        await late.execute("update projects set name = 'written to the old one'")
    await late.close()

    async with Database(pair.new_url) as database:
        demo = await ensure_demo(database, NOW, secret_key=None, public_key=None)
        told = await feed(database, demo)
        await live(database, demo, range(20, 22))
        await roll(database, demo)
        more = await feed(database, demo)
    assert more[: len(told)] == told
    assert [position for position, *_ in more] == list(range(1, len(more) + 1))
    assert await target.fetchval("select min(id) from customers where app_user_id in ('user 20', 'user 21')") > newest

    with pytest.raises(NotRelocatableError, match="--replace"):
        await copy_back(target, source, silent, replace=False)
    await copy_back(target, source, silent, replace=True)
    async with Database(url) as database:
        assert await feed(database, demo) == more
        await live(database, demo, range(30, 32))
        await roll(database, demo)
        assert len(await feed(database, demo)) > len(more)


class Interrupted(Exception):
    """Somebody pulled the plug."""
