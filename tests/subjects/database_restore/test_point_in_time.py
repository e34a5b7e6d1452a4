"""A base backup and archived write-ahead log, restored to a moment in the middle: no webhook of before is sent again,
no sequence is used twice, and every copy ends right."""

import asyncio
from pathlib import Path

import pytest

from latchkey.database import database_identity as identity
from latchkey.database.embedded.postgres import EmbeddedServer
from latchkey.database.pool import Database, connect
from latchkey.domain.restore import SEQUENCES, Origin
from latchkey.process.safety import problems_of_database
from latchkey.settings import Problem
from tests.cli.running import typed
from tests.connections import connected
from tests.convergence.processes import reconcile
from tests.convergence.verdict import compare
from tests.patience import until
from tests.subjects.database_restore.world import PROJECT, World, folder_for_server, naive_copy, run, server

pytestmark = pytest.mark.processes

EARLY = [f"early{number}" for number in range(12)]
LATE = [f"late{number}" for number in range(6)]
FRESH = [f"fresh{number}" for number in range(4)]


async def test_a_restore_to_a_moment_sends_nothing_twice_and_every_copy_ends_right(short_folder: Path) -> None:
    folder = short_folder / "restore"
    archive = folder_for_server(folder / "archive")
    first = server(folder / "first", archive_mode="on", archive_command=f"cp %p {archive}/%f")
    await asyncio.to_thread(first.start)
    try:
        async with World(folder, first.url()) as world:
            await world.start("api", "delivery", "consumer")
            async with Database(world.url, max_size=1) as database, database.acquire() as connection:
                await identity.require_settled(connection)
            await world.shop(EARLY, 2)
            backup = folder_for_server(folder / "second" / "postgres")
            await asyncio.to_thread(_base_backup, first, backup)
            await world.shop(EARLY, 2)
            await world.drained()

            # Some deliveries wait at the moment to which the database is restored.
            await world.stop("delivery")
            await world.shop(EARLY[:4], 1)
            waiting = {event["id"] for event in await world.events()} - {one.event.id for one in world.arrivals}
            assert waiting
            moment = await _now(world.url)

            # Everything after this is lost for the database, but not for the receivers.
            await world.start("delivery")
            await world.shop([*EARLY, *LATE], 3)
            await world.drained()
            lost = {event["id"] for event in await world.events()}
            sent = len(world.arrivals)
            await world.stop("api", "delivery")
            await _archived(world.url, archive)
            await asyncio.to_thread(first.stop)

            second = server(
                folder / "second",
                restore_command=f"cp {archive}/%f %p",
                recovery_target_time=moment,
                recovery_target_action="promote",
            )
            (backup / "recovery.signal").touch()
            await asyncio.to_thread(second.start)
            try:
                world.url = second.url()
                await _restored(world, waiting, lost, sent)
            finally:
                await world.stop("api", "delivery", "consumer")
                await asyncio.to_thread(second.stop)
    finally:
        await asyncio.to_thread(first.stop)


async def _problems(url: str) -> list[Problem]:
    async with connected(connect(url)) as connection:
        return await problems_of_database(connection)


async def _restored(world: World, waiting: set[str], lost: set[str], sent: int) -> None:
    await _out_of_recovery(world.url)
    [problem] = await _problems(world.url)
    assert "latchkey admin after-restore" in str(problem)

    # A service that runs already is in the way.
    other = await connect(world.url, application_name="latchkey clock,delivery")
    refused = await asyncio.to_thread(typed, "admin", "after-restore", **world.service)
    assert (refused.returncode, "latchkey clock,delivery" in refused.stderr) == (1, True), refused
    await other.close()

    done = await asyncio.to_thread(typed, "admin", "after-restore", **world.service)
    assert done.returncode == 0, done.stderr
    assert f"{2 * len(waiting)} waiting deliveries are held" in done.stdout
    assert "latchkey consumer reconcile" in done.stdout
    again = await asyncio.to_thread(typed, "admin", "after-restore", **world.service)
    assert "Nothing to do" in again.stdout
    assert await _problems(world.url) == []

    await world.start("api", "delivery")
    old = {event["id"] for event in await world.events()}
    assert waiting <= old < lost
    await world.shop([*EARLY[2:], *LATE[2:], *FRESH], 2)
    await world.drained()
    new = [event for event in await world.events() if event["id"] not in old]
    after = world.arrivals[sent:]
    assert {one.event.id for one in after} == {event["id"] for event in new}, "old webhooks were sent again"
    assert all(event["sequence"] > SEQUENCES for event in new)

    # Whoever had news holds what the service says, also at a receiver that goes by sequences alone.
    told = {event["app_user_id"] for event in new}
    assert told >= set(FRESH)
    naive = naive_copy(world.arrivals)
    service = {user: await _held(world, user) for user in told}
    assert {user: naive[user] for user in told} == service

    await asyncio.to_thread(reconcile, world.folder, world.consumer)
    verdict = await compare(world.store, world.client, [*EARLY, *LATE, *FRESH])
    assert not verdict.wrong
    assert verdict.right >= len(EARLY) + len(FRESH)

    # What was held is listed, and is sent when somebody asks for it.
    webhook = f"/v2/projects/{PROJECT}/integrations/webhooks/{world.webhook.id}"
    _, listed = await world.send("GET", f"{webhook}/deliveries?status=failed&limit=100")
    assert {one["id"] for one in listed["items"]} == waiting
    assert all("restored" in one["error"] for one in listed["items"])
    since = min(one["created_at"] for one in listed["items"])
    status, answer = await world.send("POST", f"{webhook}/replay", {"since_ms": since, "status": "failed"})
    assert status == 202, answer

    await until(
        lambda: waiting <= {one.event.id for one in world.arrivals[sent:]},
        "what was held did not arrive after a replay",
    )
    async with Database(world.url, max_size=1) as database, database.acquire() as connection:
        assert (await identity.look(connection))[0] is Origin.SAME
        entry = await connection.fetchrow("select actor, outcome from audit_entries where action = 'database.restored'")
        assert entry is not None
        assert entry["outcome"] == "done"


def _base_backup(server: EmbeddedServer, to: Path) -> None:
    run(server.programs / "pg_basebackup", "-h", server.data, "-U", "postgres", "-D", to, "-c", "fast", "-X", "none")


async def _now(url: str) -> str:
    connection = await connect(url)
    now: str = await connection.fetchval("select clock_timestamp()::text")
    await connection.close()
    return now


async def _archived(url: str, archive: Path) -> None:
    """Wait until the write-ahead log of this moment is in the archive."""
    connection = await connect(url)
    last: str = await connection.fetchval("select pg_walfile_name(pg_switch_wal())")

    await until(lambda: (archive / last).exists(), f"{last} was not archived")
    await connection.close()


async def _out_of_recovery(url: str) -> None:
    connection = await connect(url)

    async def promoted() -> bool:
        return await connection.fetchval("select pg_is_in_recovery()") is False

    await until(promoted, "the restored server did not end its recovery")
    await connection.close()


async def _held(world: World, user: str) -> set[str]:
    customer = await world.client.customer(user)
    return {one.entitlement_id for one in customer.active_entitlements.items}
