"""Connections to the primary: what happens while a host says nothing, is lost, or is not what it was."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import asyncpg
import pytest

from latchkey.database import primary
from latchkey.database.errors import DatabaseUnreachableError, NoPrimaryError, OutageError
from latchkey.database.pool import Database, connect
from latchkey.database.primary import Primary, notice_lost_machines
from latchkey.database.servers import SeenCluster, Server, Silent, identify
from latchkey.database.transient_errors import PASSING, listening
from latchkey.database_address import Host, parse
from tests.database.cable import Cable, cable
from tests.patience import PATIENCE, until

HERE = Host("here", "postgresql:///here")


def both(*cables: Cable) -> str:
    hosts = ",".join(f"127.0.0.1:{one.port}" for one in cables)
    return f"postgresql://postgres@{hosts}/{cables[0].database}"


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A primary that is silent for a moment is lost. Only while it is silent: a busy machine is slow."""
    for name in ("BEAT_PATIENCE", "ASK_PATIENCE", "SILENCE_SECONDS"):
        monkeypatch.setattr(primary, name, 0.2)


async def test_a_host_that_hangs_does_not_keep_us_from_the_other(database_url: str) -> None:
    async with cable(database_url) as dead, cable(database_url) as alive:
        dead.hold()
        async with Database(both(dead, alive)) as database:
            assert await database.pool.fetchval("select 1") == 1
        connection = await connect(both(dead, alive))
        await connection.close()


async def test_while_the_primary_is_silent_everybody_is_told_and_afterwards_it_goes_on(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        cable(database_url) as one,
        cable(database_url) as other,
        Database(both(one, other), max_size=2) as database,
    ):
        async with listening(database, "nothing", lambda _: None) as lost:
            # All connections of the pool are in use, and more wait for one.
            waiting = [asyncio.create_task(database.pool.fetchval("select pg_sleep(600)")) for _ in range(4)]
            await asyncio.sleep(0)
            one.hold()
            other.hold()
            hurry(monkeypatch)
            async with asyncio.timeout(PATIENCE):
                failed = await asyncio.gather(*waiting, return_exceptions=True)
                await lost.wait()
            assert all(isinstance(error, PASSING) for error in failed), failed
        assert isinstance(database.trouble, NoPrimaryError)
        with pytest.raises(NoPrimaryError):
            await database.pool.fetchval("select 1")
        with pytest.raises(OutageError):
            async with listening(database, "nothing", lambda _: None):
                pass
        monkeypatch.undo()
        one.release()
        other.release()

        async def works() -> bool:
            return database.trouble is None and await database.pool.fetchval("select 1") == 1

        await until(works)


async def test_a_primary_that_refuses_new_connections_but_answers_stays_the_primary(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(primary, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(primary, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(primary, "BEAT_PATIENCE", PATIENCE)
    looked: list[Host] = []

    async def full(_: Primary, host: Host) -> Silent:
        looked.append(host)
        return Silent(host, "has no connection to spare")

    async with (
        cable(database_url) as one,
        cable(database_url) as other,
        Database(both(one, other)) as database,
        database.acquire() as connection,
    ):
        monkeypatch.setattr(Primary, "_ask", full)
        await until(lambda: len(looked) >= 6)
        assert database.trouble is None
        assert await connection.fetchval("select 1") == 1


async def test_an_address_of_one_host_is_not_watched_and_an_old_primary_behind_it_is_refused(database_url: str) -> None:
    found = Primary(parse(database_url))
    await found.open()
    assert found._watching is None
    connection = await found.connect()
    await connection.close()
    found._seen = SeenCluster(found._seen.system, found._seen.timeline + 1)
    with pytest.raises(NoPrimaryError, match="is an old primary"):
        await found.connect()
    # Another database behind the same address is somebody's decision.
    found._seen = SeenCluster("0", 99)
    connection = await found.connect()
    await connection.close()


async def test_a_standby_will_not_do_if_a_primary_is_asked_for(
    database_url: str, administration: asyncpg.Connection[asyncpg.Record]
) -> None:
    name = database_url.partition("?")[0].rpartition("/")[2]
    await administration.execute(f"alter database {name} set default_transaction_read_only = on")
    await (await connect(database_url)).close()
    with pytest.raises(NoPrimaryError, match="takes no changes"):
        await connect(f"{database_url}&target_session_attrs=read-write")


async def test_no_host_answers_and_each_is_named() -> None:
    with pytest.raises(DatabaseUnreachableError, match=r"0.1:1 cannot be used.*; 127.0.0.1:2 cannot be used") as told:
        await Database("postgresql://bob:hunter2@127.0.0.1:1,127.0.0.1:2/x").open()
    assert "hunter2" not in str(told.value)


async def test_an_ordinary_user_may_ask_for_the_timeline_and_where_not_it_is_unknown(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    await connection.execute("create role ordinary_of_failover")
    try:
        await connection.execute("set role ordinary_of_failover")
        told = await identify(connection, HERE)
        assert (told.takes_changes, told.is_standby) == (True, False)
        assert told.timeline >= 1
        assert told.system.isdigit()
        await connection.execute("reset role")
        await connection.execute("revoke execute on function pg_control_system() from public")
        await connection.execute("set role ordinary_of_failover")
        assert await identify(connection, HERE) == Server(HERE, "", 0)
    finally:
        await connection.execute("reset role")
        await connection.execute("drop role ordinary_of_failover")
        await connection.close()


async def test_a_lost_machine_is_noticed_by_the_kernel(database_url: str) -> None:
    async with cable(database_url) as one:
        connection: Any = await connect(f"postgresql://postgres@127.0.0.1:{one.port}/{one.database}")
        used = connection._transport.get_extra_info("socket")
        assert used.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            assert used.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 10_000
            assert used.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 5
        await connection.close()
    # Whatever the driver's connections look like in its next version.
    notice_lost_machines(object())
