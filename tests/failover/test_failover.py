"""The primary dies or freezes under load and its standby is promoted: the service goes on by itself."""

import asyncio
from collections import defaultdict
from functools import partial
from pathlib import Path

import asyncpg
import pytest
from sqlalchemy.exc import SQLAlchemyError

from latchkey.consumer.storage import consumer_database
from latchkey.consumer.storage.consumer_database import ConsumerDatabase
from latchkey.database.pool import Database
from latchkey.now import real_now
from latchkey.observability.gauges import QueueGauges
from latchkey.process.doctor import restored
from latchkey.process.doctor_deployment import hosts
from tests.connections import connected
from tests.failover.cluster import Node, Pair
from tests.failover.scene import Scene, staged
from tests.patience import until
from tests.subjects.webhooks.delivery import certificates
from tests.subjects.webhooks.delivery.processes import in_order

pytestmark = pytest.mark.processes


async def is_used_by(consumer: ConsumerDatabase, node: Node) -> bool:
    return await answers(consumer) == node.name


async def events_on(node: Node) -> set[str]:
    async with connected(asyncpg.connect(node.url())) as connection:
        return {row["id"] for row in await connection.fetch("select id from events")}


async def is_heard_on(node: Node) -> bool:
    """Whether the delivery worker and the stores' processor listen there."""
    async with connected(asyncpg.connect(node.url())) as connection:
        found: int = await connection.fetchval(
            "select count(*) from pg_stat_activity"
            " where application_name = 'latchkey listening' and query ilike 'listen%'"
        )
        return found == 2


async def answers(consumer: ConsumerDatabase) -> str:
    """The server that the reference consumer's database connection leads to; empty while it leads nowhere."""
    try:
        async with consumer.writing() as connection:
            [row] = await consumer.fetch(connection, "select current_setting($1)", ("cluster_name",))
            return str(row[0])
    except (SQLAlchemyError, OSError):
        return ""


async def doctor_says(pair: Pair) -> tuple[str, str]:
    said = await hosts(pair.url)
    assert said is not None
    return said.mark, f"{said.words} {said.remedy}"


async def test_a_primary_killed_or_frozen_under_load_is_replaced_and_changes_nothing_when_it_comes_back(
    short_folder: Path, certs: certificates.Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The consumer leaves a frozen primary that answers again when its connection is this old.
    monkeypatch.setattr(consumer_database, "LIFETIME_SECONDS", 1)
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
        await scene.synchronise()
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


async def test_after_a_failover_that_lost_commits_no_sequence_is_used_twice_and_everything_says_so(
    short_folder: Path, certs: certificates.Certificates
) -> None:
    async with staged(short_folder / "lossy", certs) as scene:
        pair = scene.pair
        # The standby is down, the operator goes on without it, and promotes it all the same: the database on it says
        # that commits wait. Only the running process knows better.
        await asyncio.to_thread(pair.standby.kill)
        pair.primary.configure()
        pair.primary.reload()
        await scene.until(lambda: scene.service.logged("commits wait for no standby"), "noticed")
        await lose_commits(scene)
        await asyncio.to_thread(pair.fail_over)
        await scene.until_ready()
        await scene.until_delivered(10)
        await says_so(scene, 1)

        # A standby that commits never waited for, and all of the service starts anew.
        await asyncio.to_thread(pair.rejoin, rewind=False)
        await scene.until_bought(10)
        await asyncio.to_thread(pair.standby.kill)
        await lose_commits(scene)
        scene.service.kill()
        await asyncio.to_thread(pair.fail_over)
        await scene.start_again()
        await scene.until_delivered(10)
        await says_so(scene, 2)

        for buyer in scene.buyers:
            await asyncio.to_thread(buyer.stop)
        arrivals = scene.receiver.arrivals()
        ids = defaultdict(set)
        for one in arrivals:
            ids[one.user, one.sequence].add(one.event_id)
        assert [key for key, found in ids.items() if len(found) > 1] == []
        assert in_order(arrivals)


async def lose_commits(scene: Scene) -> None:
    """The standby, which is down, comes back without the newest purchases, of which receivers know."""
    known = await events_on(scene.pair.primary)
    await scene.until(lambda: {one.event_id for one in scene.receiver.arrivals()} - known, "more deliveries")
    await asyncio.to_thread(scene.pair.primary.kill)
    await asyncio.to_thread(scene.pair.standby.start)


async def says_so(scene: Scene, failovers: int) -> None:
    assert len(scene.service.logged("a failover may have lost commits")) == failovers
    async with Database(scene.pair.url) as database:
        async with database.acquire() as connection:
            said = await restored(connection)
        families = await QueueGauges(database, real_now).families()
    assert said is not None
    assert (said.mark, "after-restore" in said.remedy) == ("bad", True)
    values = {sample.name: sample.value for family in families for sample in family.samples}
    assert values["latchkey_lossy_failovers"] == failovers
