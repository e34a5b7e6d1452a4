"""`after-restore`, step by step, and how a restored database is noticed. tests/restoring does it with real restores."""

import asyncio
from unittest.mock import AsyncMock

import pytest
from structlog.testing import capture_logs

from latchkey.database import database_identity as identity
from latchkey.database.errors import RestoredError
from latchkey.database.pool import Connection, Database, connect
from latchkey.database.sealing import Sealer
from latchkey.domain.instants import DAY, HOUR, MINUTE, Ms
from latchkey.domain.refusal import Conflict
from latchkey.domain.restore import POSITIONS, SEQUENCES, DatabaseIdentity, Origin, stretch_of
from latchkey.process import doctor
from latchkey.settings import Settings
from latchkey.subjects.database_restore import storage as aftermath
from latchkey.subjects.database_restore.usecases import ACTION, HELD, Report, RestoreOptions, after_restore
from latchkey.subjects.deployment.storage import events_since, largest_feeds
from latchkey.subjects.webhooks.delivery.role import make_worker, run_delivery
from latchkey.subjects.webhooks.rules import Setup, Webhook
from latchkey.subjects.webhooks.usecases.registry import Registry
from tests.engine.fixtures import NOON, Core
from tests.patience import until
from tests.subjects.webhooks.delivery.processes import SECRET_KEY

ELSEWHERE = DatabaseIdentity("1", 2, 3)


@pytest.fixture
async def webhook(core: Core) -> Webhook:
    setup = Setup(name="receiver", url="https://receiver.example/")
    return await Registry(core.database, Sealer(SECRET_KEY)).add(core.project_id, setup, NOON)


async def restored(database: Database) -> None:
    """As if the database had been on another server before."""
    async with database.acquire() as connection:
        await identity.note(connection, ELSEWHERE)


async def run(database: Database, now: Ms = NOON + HOUR, **wanted: bool) -> Report:
    return await after_restore(database, RestoreOptions(**wanted), now, actor="a test")


# Where numbers skip to.
SKIPPED = stretch_of(NOON + HOUR)


async def test_what_waits_is_held_unless_it_is_to_be_sent(core: Core, webhook: Webhook) -> None:
    await core.act("purchase", "alice", "pro_monthly")
    await core.act("purchase", "bob", "pro_monthly")
    pool = core.database.pool
    await pool.execute("update lanes set lease_until = $1, token = 7, next_at = $1", NOON + DAY)
    await restored(core.database)
    report = await run(core.database, send_waiting=True)
    assert "deliveries held" not in report.counts
    lanes = await pool.fetch("select lease_until, token, next_at from lanes")
    assert [tuple(lane) for lane in lanes] == [(0, 8, NOON + HOUR)] * 2

    report = await run(core.database, again=True)
    assert report.counts["deliveries held"] == 2
    assert await pool.fetchval("select count(*) from lanes") == 0
    rows = await pool.fetch("select status, error from deliveries")
    assert [tuple(row) for row in rows] == [("failed", HELD)] * 2


async def test_new_events_get_numbers_that_nobody_has_seen_and_it_is_done_once(core: Core) -> None:
    await core.act("purchase", "alice", "pro_monthly")
    await restored(core.database)
    assert (await run(core.database)).counts["projects moved on"] == 1
    assert (await run(core.database)).done_before == NOON + HOUR
    await core.act("cancel", "alice")
    await core.act("purchase", "bob", "pro_monthly")
    told = {event.app_user_id: event.sequence for event in await core.events(None)}
    first = SKIPPED * SEQUENCES + 1
    assert told == {"alice": first, "bob": first}
    pool = core.database.pool
    positions = [row[0] for row in await pool.fetch("select position from events order by position")]
    assert positions == [1, SKIPPED * POSITIONS + 2, SKIPPED * POSITIONS + 3]
    async with pool.acquire() as connection:
        assert [feed.events for feed in await largest_feeds(connection, 1)] == [3]
        assert await events_since(connection, core.project_id, 0) == 3
    keys = [row[0] for row in await pool.fetch("select id from customers order by id")]
    assert keys[1] - keys[0] > SEQUENCES
    await core.act("uncancel", "alice")
    assert [event.sequence for event in await core.events("alice")][1:] == [first, first + 1]
    entry = await pool.fetchrow("select project_id, outcome from audit_entries where action = $1", ACTION)
    assert entry is not None
    assert tuple(entry) == (core.project_id, "done")


async def test_two_restores_of_one_backup_give_no_number_twice(core: Core) -> None:
    await core.act("purchase", "alice", "pro_monthly")
    pool = core.database.pool
    backup = await pool.fetchrow("select sequence_floor, floor_position, position from projects, feeds")
    key = await pool.fetchval("select max(id) from customers")
    assert backup is not None
    found = []
    for number, buyer in enumerate(("carl", "dora")):
        await restored(core.database)
        await pool.execute("delete from restores")
        await pool.execute("update projects set sequence_floor = $1, floor_position = $2", backup[0], backup[1])
        await pool.execute("update feeds set position = $1", backup[2])
        await pool.execute("select setval(pg_get_serial_sequence('customers', 'id'), $1)", key)
        await run(core.database, NOON + HOUR + number * MINUTE)
        await core.act("purchase", buyer, "pro_monthly")
        found.append(await pool.fetchrow("select sequence, position, customer_id from events order by position desc"))
        await pool.execute("delete from events where position > $1", backup[2])
    carl, dora = (tuple(row) for row in found if row is not None)
    assert all(later > sooner for sooner, later in zip(carl, dora, strict=True))


async def test_done_again_after_the_service_has_worked_it_is_another_restore(core: Core) -> None:
    """A copy of the whole server that was put back looks like the server that it is of."""
    await core.act("purchase", "alice", "pro_monthly")
    await run(core.database)
    assert (await run(core.database)).done_before == NOON + HOUR
    core.time = NOON + 2 * HOUR
    await core.act("cancel", "alice")
    report = await run(core.database, NOON + 3 * HOUR)
    assert (report.done_before, report.counts["projects moved on"]) == (None, 1)


async def test_interrupted_it_moves_nothing_on_twice(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    await core.act("purchase", "alice", "pro_monthly")
    await restored(core.database)
    with monkeypatch.context() as patch:

        async def killed(*_: object) -> None:
            raise ConnectionAbortedError

        patch.setattr(aftermath, "reset_queues", killed)
        with pytest.raises(ConnectionAbortedError):
            await run(core.database)
    async with core.database.acquire() as connection:
        assert (await identity.look(connection))[0] is Origin.RESTORED
    report = await run(core.database)
    assert "projects moved on" not in report.counts
    assert await core.database.pool.fetchval("select position from feeds") == SKIPPED * POSITIONS + 1
    async with core.database.acquire() as connection:
        assert (await identity.look(connection))[0] is Origin.SAME


async def test_the_stores_are_asked_again_one_purchase_after_the_other(core: Core) -> None:
    pool = core.database.pool
    await pool.execute(
        "insert into apps (project_id, id, name, store, created_at) values ($1, 'a', 'A', 'play_store', 0)",
        core.project_id,
    )
    await pool.execute(
        "insert into store_connections (project_id, app_id, store, version, url_token, url_token_hash, history_read_to)"
        " values ($1, 'a', 'play_store', 1, 'x', 'x', $2)", core.project_id, NOON + HOUR - 60_000,
    )  # fmt: skip
    # Expected to be told of; told of lately; over long ago.
    for handle, told_at, check_at in ((b"1", 0, NOON + 9 * DAY), (b"2", NOON, None), (b"3", 0, None)):
        await pool.execute(
            "insert into store_handles (project_id, store, handle_hash, handle, app_id, environment, store_id, kind,"
            " product_id, first_seen_at, last_told_at, check_at)"
            " values ($1, 'play_store', $2, 'h', 'a', 'production', 's', 'subscription', 'p', 0, $3, $4)",
            core.project_id, handle, told_at, check_at,
        )  # fmt: skip
    await restored(core.database)
    report = await run(core.database)
    assert report.counts["histories of stores to read"] == 1
    assert report.counts["purchases to read from their stores"] == 2
    assert await pool.fetchval("select history_read_to from store_connections") == NOON
    due = [row[0] for row in await pool.fetch("select check_at from store_handles order by handle_hash")]
    assert due == [NOON + HOUR + 100, NOON + HOUR + 200, None]


async def test_a_restored_database_is_refused_until_it_was_run(core: Core, webhook: Webhook) -> None:
    async with core.database.acquire() as connection:
        # The first look notes the server.
        await identity.require_settled(connection)
        assert await doctor.restored(connection) is None
        await identity.note(connection, ELSEWHERE)
        with pytest.raises(RestoredError, match="latchkey admin after-restore"):
            await identity.require_settled(connection)
        finding = await doctor.restored(connection)
        assert finding is not None
        assert (finding.mark, "latchkey admin after-restore" in finding.remedy) == ("bad", True)
    settings, stop = Settings(secret_key=SECRET_KEY), asyncio.Event()
    worker = make_worker(core.database, settings)
    with capture_logs() as logged:
        delivering = asyncio.create_task(run_delivery(worker, core.database, settings, stop))
        await until(lambda: "nothing is delivered" in [entry["event"] for entry in logged])
    assert worker.lease() is None
    stop.set()
    await delivering

    # A database that was only moved: nothing but the server is noted.
    await core.act("purchase", "alice", "pro_monthly")
    assert (await run(core.database, nothing_lost=True)).counts == {}
    assert await core.database.pool.fetchval("select count(*) from lanes") == 1
    async with core.database.acquire() as connection:
        await identity.require_settled(connection)


async def test_a_dump_that_was_loaded_into_the_same_database_is_noticed(core: Core) -> None:
    async with core.database.acquire() as connection:
        assert await identity.settle(connection) is Origin.SAME
        assert await identity.settle(connection) is Origin.SAME
        await core.make_anew("server_identity")
        assert await identity.settle(connection) is Origin.RESTORED


async def promoted(connection: Connection, waited: bool) -> None:
    """As if this server had been a standby, and commits had waited for it or not."""
    _, here = await identity.look(connection)
    assert here is not None
    await identity.note(connection, here._replace(timeline=here.timeline + 1))
    await connection.execute("update server_identity set waits_for_standby = $1", waited)


async def test_a_promoted_standby_is_no_restore_and_an_unreadable_history_stops_nothing(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    origins = {
        "no recovery target specified": Origin.PROMOTED,
        None: Origin.UNCLEAR,
        "before 2026-11-16 10:00:00+00": Origin.RESTORED,
    }
    async with core.database.acquire() as connection:
        for reason, what in origins.items():
            monkeypatch.setattr(identity, "_reason", AsyncMock(return_value=reason))
            await promoted(connection, waited=True)
            assert await identity.settle(connection) is what
            assert await connection.fetchval("select sequence_floor from projects") == 0
            if what is Origin.UNCLEAR:
                # It is noted, and what follows is compared with it; the doubt stays.
                assert await identity.settle(connection) is Origin.SAME
                finding = await doctor.restored(connection)
                assert finding is not None
                assert finding.mark == "unknown"
                await run(core.database, nothing_lost=True)
                assert await doctor.restored(connection) is None


async def test_after_a_failover_that_may_have_lost_commits_numbers_skip_ahead_once_and_doctor_says_so(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    await core.act("purchase", "alice", "pro_monthly")
    async with core.database.acquire() as connection:
        # This process has seen a change of the catalog that was lost.
        await connection.execute("update projects set catalog_version = catalog_version + 1")
        await core.act("cancel", "alice")
        await connection.execute("update projects set catalog_version = catalog_version - 1")
        # Commits have begun to wait since two processes last looked. The second one finds the new server noted already.
        await promoted(connection, waited=True)
        with monkeypatch.context() as patch:
            patch.setattr(identity, "_reason", AsyncMock(return_value="no recovery target specified"))
            for _ in range(2):
                await identity.follow(connection, unconfirmed_at=1)
        assert await connection.fetchval("select sequence_floor from projects") == 0
        await promoted(connection, waited=False)
        for _ in range(2):
            await identity.follow(connection, unconfirmed_at=0)
            assert await identity.settle(connection) is Origin.SAME
        # A process that saw more of the old server than the database says.
        await identity.follow(connection, unconfirmed_at=NOON)
        await core.act("uncancel", "alice")
        [*before, skipped] = [event.sequence for event in await core.events("alice")]
        assert before == [1, 2]
        assert isinstance(skipped, int)
        assert skipped % SEQUENCES == 1
        assert skipped > SKIPPED * SEQUENCES
        finding = await doctor.restored(connection)
        assert finding is not None
        assert (finding.mark, "admin after-restore --nothing-lost" in finding.remedy) == ("bad", True)

    # Also beside the service.
    service = await connect(core.database.url, application_name="latchkey clock,delivery")
    await run(core.database, nothing_lost=True)
    await service.close()
    async with core.database.acquire() as connection:
        assert await doctor.restored(connection) is None


async def test_it_refuses_to_run_beside_the_service(core: Core) -> None:
    service = await connect(core.database.url, application_name="latchkey clock,delivery")
    with pytest.raises(Conflict, match="clock,delivery"):
        await run(core.database)
    await service.close()
