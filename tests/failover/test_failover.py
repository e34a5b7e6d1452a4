"""The primary dies or freezes under load and its standby is promoted: the service goes on by itself."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import asyncpg
import pytest
from sqlalchemy.exc import SQLAlchemyError

from latchkey.cli.doctor_hosts import hosts
from latchkey.consumer.storage import primary
from latchkey.consumer.storage.database import Database as ConsumerDatabase
from latchkey.storage.database import Database
from tests.delivery import certificates
from tests.failover.cluster import Node, Pair
from tests.failover.scene import staged
from tests.patience import until

pytestmark = pytest.mark.processes


async def is_used_by(consumer: ConsumerDatabase, node: Node) -> bool:
    return await answers(consumer) == node.name


async def events_on(node: Node) -> int:
    connection = await asyncpg.connect(node.url())
    try:
        found: int = await connection.fetchval("select count(*) from events")
        return found
    finally:
        await connection.close()


async def is_heard_on(node: Node) -> bool:
    """Whether the delivery worker and the stores' processor listen there."""
    connection = await asyncpg.connect(node.url())
    try:
        found: int = await connection.fetchval(
            "select count(*) from pg_stat_activity"
            " where application_name = 'latchkey listening' and query ilike 'listen%'"
        )
        return found == 2
    finally:
        await connection.close()


async def answers(consumer: ConsumerDatabase) -> str:
    """The server that the reference consumer's database connection leads to; empty while it leads nowhere."""
    try:
        async with consumer.writing() as connection:
            [row] = await consumer.fetch(connection, "select current_setting($1)", ("cluster_name",))
            return str(row[0])
    except (SQLAlchemyError, OSError):
        return ""


async def doctor_says(pair: Pair) -> tuple[str, str]:
    connection = await asyncpg.connect(pair.primary.url())
    try:
        said = await hosts(pair.url, connection)
        assert said is not None
        return said.mark, f"{said.words} {said.remedy}"
    finally:
        await connection.close()


async def test_a_primary_killed_or_frozen_under_load_is_replaced_and_changes_nothing_when_it_comes_back(
    short_folder: Path, certs: certificates.Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The consumer leaves a frozen primary that answers again when its connection is this old.
    monkeypatch.setattr(primary, "LIFETIME_SECONDS", 1)
    async with staged(short_folder / "failover", certs) as scene:
        pair = scene.pair
        mark, words = await doctor_says(pair)
        assert (mark, "commits wait for a standby" in words) == ("good", True), words
        consumer = ConsumerDatabase(pair.url)
        assert await is_used_by(consumer, pair.primary)
        await scene.until_delivered(5)
        await asyncio.to_thread(pair.primary.kill)
        await scene.until_without_primary()
        await asyncio.to_thread(pair.fail_over)
        await scene.until_ready()
        await scene.until_bought(10)
        await scene.until_delivered(10)
        await until(partial(is_heard_on, pair.primary), "LISTEN is taken up again")
        await until(partial(is_used_by, consumer, pair.primary), "the consumer has found the new primary")
        mark, words = await doctor_says(pair)
        assert (mark, "may lose" in words) == ("unknown", True), words

        # An operator starts the old primary as if nothing had happened: it takes changes, and waits for no standby.
        old = pair.standby
        old.configure()
        await asyncio.to_thread(old.start)
        left = await events_on(old)
        async with Database(pair.url) as database:
            assert await database.pool.fetchval("show cluster_name") == pair.primary.name
        mark, words = await doctor_says(pair)
        assert (mark, f"Stop {old.host} " in words) == ("bad", True), words
        # Even if it is the only one.
        await asyncio.to_thread(pair.primary.kill)
        await scene.until_without_primary()
        await scene.until(
            lambda: any(
                "is an old primary" in line["reason"] for line in scene.service.logged("database has no primary")
            ),
            "the log says why",
        )
        assert await answers(consumer) == ""
        await asyncio.to_thread(pair.primary.start)
        await scene.until_ready()
        await scene.until_bought(10)
        assert await events_on(old) == left

        # Made a standby again, it takes over from a primary that is frozen: its connections hang and never fail.
        await asyncio.to_thread(old.kill)
        await asyncio.to_thread(pair.rejoin, rewind=False)
        await pair.synchronise()
        await scene.until_bought(10)
        await asyncio.to_thread(pair.primary.freeze)
        await asyncio.to_thread(pair.fail_over)
        await scene.until_ready()
        await scene.until_bought(10)
        await scene.until_delivered(10)
        # What the frozen one could not finish, it may finish now: nobody was told of it, and nobody asks it any more.
        await asyncio.to_thread(pair.standby.thaw)
        await scene.until_bought(10)
        await until(partial(is_heard_on, pair.primary), "LISTEN is taken up again")
        await until(partial(is_used_by, consumer, pair.primary), "the consumer has found the new primary")
        await consumer.close()
        await scene.has_lost_nothing()
        found = scene.service.logged("database primary found")
        assert [line["host"] for line in found] == [pair.standby.host, pair.standby.host, pair.primary.host]
